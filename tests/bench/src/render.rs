//! The render alone, in this process.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow};
use haptic_api as api;
use haptic_model::ports::NoPlugins;
use haptic_render::{Inputs, Memo, RawText, Renderer, Template, TemplateSet};
use haptic_store::{DirectorySource, Store, WatchedResource};

use crate::{Subject, cluster, stats::Samples};

const COLD: usize = 9;
const WARM: usize = 40;

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    cluster::write(root, subject.routes, 8080, &cluster::config(8080, false))?;
    let (set, resources) = libraries(&root.join("libraries"))?;
    let renderer = Renderer::compile(set, Arc::new(NoPlugins)).map_err(|findings| anyhow!("{findings:?}"))?;
    let mut source = DirectorySource::open([root.to_owned()])?;
    let mut store = Store::new(resources);
    store.sync(&source.scan().changes);
    let inputs = |store: &Store| Inputs {
        snapshot: store.snapshot(),
        quarantined: BTreeSet::new(),
        haproxy: (subject.haproxy.minor.major, subject.haproxy.minor.minor),
    };

    let mut cold = Samples::default();
    for _ in 0..COLD {
        let began = Instant::now();
        let rendered = renderer.render(&inputs(&store), &mut Memo::default())?;
        cold.push(began.elapsed());
        anyhow::ensure!(rendered.plan.backends.len() == subject.routes, "every Ingress has its backend");
    }
    cold.print("cold render, all Ingresses", "");
    let each = cold.median() / u32::try_from(subject.routes.max(1))?;
    crate::stats::print("cold render, per Ingress", &crate::stats::shown(each), "40 µs");

    let mut memo = Memo::default();
    renderer.render(&inputs(&store), &mut memo)?;
    let mut warm = Samples::default();
    for round in 0..WARM {
        let number = round % cluster::ALONE.min(subject.routes);
        let changed = cluster::slice(number, &format!("127.9.1.{}", round + 1), 8080);
        fs::write(cluster::slice_file(root, number), changed)?;
        store.sync(&source.scan().changes);
        let now = inputs(&store);
        let began = Instant::now();
        renderer.render(&now, &mut memo)?;
        warm.push(began.elapsed());
        let (_, rendered) = memo.hits_and_misses();
        anyhow::ensure!(rendered == 1, "one unit is rendered again, not {rendered}");
    }
    warm.print("render after one endpoint changed", "1 ms");

    let mut added = Samples::default();
    for number in subject.routes..subject.routes + WARM {
        let (service, slice) = (cluster::service(number), cluster::slice(number, "127.9.0.1", 8080));
        fs::write(root.join(format!("added-{number}.yaml")), format!("{service}---\n{slice}"))?;
        store.sync(&source.scan().changes);
        renderer.render(&inputs(&store), &mut memo)?;
        fs::write(root.join(format!("route-{number}.yaml")), cluster::ingress(number))?;
        store.sync(&source.scan().changes);
        let now = inputs(&store);
        let began = Instant::now();
        let rendered = renderer.render(&now, &mut memo)?;
        added.push(began.elapsed());
        anyhow::ensure!(rendered.plan.backends.len() == number + 1, "the new Ingress has its backend");
        let (_, rendered) = memo.hits_and_misses();
        anyhow::ensure!(rendered == 1, "one unit is rendered, not {rendered}");
    }
    added.print("render after an Ingress was added", "");
    Ok(())
}

fn libraries(folder: &Path) -> Result<(TemplateSet, Vec<WatchedResource>)> {
    let mut snippets = BTreeMap::new();
    let mut resources = Vec::new();
    let mut extra = serde_json::Map::new();
    let mut config = None;
    let template = |name: String, text: &str| Template { name: name.into(), source: text.into() };
    for name in ["base", "ssl", "ingress"] {
        let path = folder.join(format!("{name}.yaml"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let library: api::HAProxyTemplateLibrary = serde_norway::from_str(&text)?;
        let spec = library.spec;
        config = spec.haproxy_config.map(|main| template(name.to_owned(), &main.template)).or(config);
        for (snippet, text) in spec.template_snippets {
            snippets.insert(snippet.clone(), template(snippet, &text.template));
        }
        for (resource, watched) in spec.watched_resources {
            let resource = WatchedResource::new(&resource, &watched, &[]);
            resources.push(resource.map_err(|findings| anyhow!("{findings:?}"))?);
        }
        extra.extend(spec.extra_context);
    }
    let set = TemplateSet {
        config: config.context("no library brings the main template")?,
        snippets,
        maps: BTreeMap::new(),
        files: BTreeMap::new(),
        certificates: BTreeMap::new(),
        crt_lists: BTreeMap::new(),
        extra_context: serde_json::Value::Object(extra),
        raw_text: RawText::Refused,
    };
    Ok((set, resources))
}
