//! Which objects a render is published as.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_api::{AuxiliaryFiles, PublishedObject, WithheldFile, WithheldReason};
use haptic_model::{CONFIG_PATH, Digest, File, FileKind, FilePath, Framer};
use serde_json::{Value, json};

use crate::{
    cluster::{
        objects::{CFG, CRT_LIST_FILE, GENERAL_FILE, Kind, MAP_FILE},
        publisher::encode::Encoded,
        standing::ConfigOwner,
    },
    pipeline::Render,
    redact::{has_private_key, redacted},
};

/// The label by which all published objects of a configuration are found: the UID of its object.
pub(super) const OWNER_LABEL: &str = "haptic.rs/config-uid";
/// The label for people: the name of the configuration, if a label can hold it.
const NAME_LABEL: &str = "haptic.rs/template-config";
/// How many parts there are, on the first one, if there are several.
pub(super) const PARTS_ANNOTATION: &str = "haptic.rs/parts";

/// Counts up when the same file is published in another way, so that its object is another one.
const FORM: &str = "1";

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
}

/// As what each file was found to be published, so that it is read once.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<FilePath, (Digest, Result<Kind, WithheldReason>)>);

/// What a render is published as.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) plan: String,
    pub(super) config: Published,
    pub(super) files: Vec<Published>,
    pub(super) withheld: Vec<WithheldFile>,
}

/// One file and the name of its object.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub(super) key: Key,
    pub(super) path: Arc<str>,
}

// === impl Output ===

impl Output {
    /// Reads the files that `kinds` does not know.
    pub(super) fn of(render: &Render, owner: &ConfigOwner, kinds: &mut Kinds) -> Self {
        let plan = render.plan().to_string();
        let mut output = Self {
            config: Published::new(CFG, owner, CONFIG_PATH, &plan),
            plan,
            files: Vec::new(),
            withheld: Vec::new(),
        };
        for (path, file) in render.output.rendered.files.iter() {
            if path.as_str() == CONFIG_PATH {
                continue;
            }
            match kinds.of(file) {
                Ok(kind) => {
                    output.files.push(Published::new(kind, owner, path.as_str(), &file.digest.to_string()));
                }
                Err(reason) => output.withhold(path.as_str(), reason),
            }
        }
        kinds.0.retain(|path, _| render.output.rendered.files.contains_key(path));
        output
    }

    /// Leaves out what cannot be published.
    pub(super) fn withhold(&mut self, path: &str, reason: WithheldReason) {
        self.files.retain(|file| &*file.path != path);
        self.withheld.push(WithheldFile { path: path.to_owned(), reason });
    }

    /// The objects of its files, without parts.
    pub(super) fn keys(&self) -> BTreeSet<Key> {
        self.files.iter().map(|file| file.key.clone()).collect()
    }

    pub(super) fn auxiliary(&self, namespace: &str) -> AuxiliaryFiles {
        let of = |kind: Kind| {
            let files = self.files.iter().filter(|file| file.key.kind == kind);
            files
                .map(|file| PublishedObject {
                    kind: kind.name.to_owned(),
                    name: file.key.name.to_string(),
                    namespace: namespace.to_owned(),
                })
                .collect()
        };
        AuxiliaryFiles {
            map_files: of(MAP_FILE),
            ssl_certificates: Vec::new(),
            general_files: of(GENERAL_FILE),
            crt_list_files: of(CRT_LIST_FILE),
        }
    }
}

// === impl Kinds ===

impl Kinds {
    fn of(&mut self, file: &File) -> Result<Kind, WithheldReason> {
        match self.0.get(&file.path) {
            Some((digest, kind)) if *digest == file.digest => *kind,
            _ => {
                let kind = kind_of(file);
                self.0.insert(file.path.clone(), (file.digest, kind));
                kind
            }
        }
    }
}

// === impl Published ===

impl Published {
    fn new(kind: Kind, owner: &ConfigOwner, path: &str, content: &str) -> Self {
        let mut framer = Framer::default();
        for field in [FORM, &owner.uid, kind.name, path, content] {
            framer.field(field);
        }
        let identity: String = framer.finish().to_string().chars().take(16).collect();
        let word = match kind {
            MAP_FILE => "map",
            GENERAL_FILE => "file",
            CRT_LIST_FILE => "crtlist",
            _ => "cfg",
        };
        let start = owner.name[..owner.name.floor_char_boundary(200)].trim_end_matches(['.', '-']);
        let name = format!("{start}-{word}-{identity}");
        Self { key: Key { kind, name: name.into() }, path: path.into() }
    }

    /// The object of one part, for a server-side apply.
    pub(super) fn object(
        &self,
        owner: &ConfigOwner,
        plan: &str,
        whole: &Whole,
        encoded: &Encoded,
        part: usize,
    ) -> Value {
        let parts = encoded.parts.len();
        let text = &encoded.parts[part];
        let mut spec = json!({ "path": self.path, "checksum": whole.checksum });
        let file_name = self.path.rsplit('/').next().unwrap_or(&self.path);
        match self.key.kind {
            MAP_FILE => (spec["mapName"], spec["entries"]) = (json!(file_name), json!(text)),
            CRT_LIST_FILE => (spec["listName"], spec["entries"]) = (json!(file_name), json!(text)),
            GENERAL_FILE => (spec["fileName"], spec["content"]) = (json!(file_name), json!(text)),
            _ => (spec["plan"], spec["content"]) = (json!(plan), json!(text)),
        }
        if encoded.compressed {
            spec["compressed"] = json!(true);
        }
        let mut labels = json!({ OWNER_LABEL: owner.uid });
        if owner.name.len() <= 63 {
            labels[NAME_LABEL] = json!(owner.name);
        }
        let mut metadata = json!({
            "name": part_name(&self.key.name, part), "namespace": owner.namespace, "labels": labels,
            "ownerReferences": [{
                "apiVersion": CFG.api_version, "kind": "HAProxyTemplateConfig", "name": owner.name, "uid": owner.uid,
            }],
        });
        if parts > 1 {
            (spec["part"], spec["parts"]) = (json!(part + 1), json!(parts));
            if part == 0 {
                metadata["annotations"] = json!({ PARTS_ANNOTATION: parts.to_string() });
            }
        }
        json!({ "apiVersion": self.key.kind.api_version, "kind": self.key.kind.name, "metadata": metadata, "spec": spec })
    }
}

/// A text as everybody may read it.
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) checksum: String,
}

// === impl Whole ===

impl Whole {
    /// Takes time for large files.
    pub(super) fn of(file: &File) -> Result<Self, WithheldReason> {
        kind_of(file)?;
        let text = String::from_utf8_lossy(&file.content);
        // Only HAProxy's own language has words whose values are known to be secret.
        Ok(Self::new(if file.kind == FileKind::Config { redacted(&text).into_owned() } else { text.into_owned() }))
    }

    /// What stands where the configuration would.
    pub(super) fn withheld(reason: WithheldReason) -> Self {
        Self::new(format!("# This text is deployed and not published: {reason:?}.\n"))
    }

    fn new(text: String) -> Self {
        let checksum = Digest::of(text.as_bytes()).to_string();
        Self { text, checksum }
    }
}

/// The name of a part, counted from 0.
pub(super) fn part_name(name: &str, part: usize) -> String {
    if part == 0 { name.to_owned() } else { format!("{name}-p{}", part + 1) }
}

/// The name of the first part.
pub(super) fn first_name(name: &str) -> &str {
    match name.rsplit_once("-p") {
        Some((first, part)) if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) => first,
        _ => name,
    }
}

/// As what it is published. Reads the whole file.
fn kind_of(file: &File) -> Result<Kind, WithheldReason> {
    if file.kind == FileKind::Cert {
        return Err(WithheldReason::Certificate);
    }
    let Ok(text) = str::from_utf8(&file.content) else { return Err(WithheldReason::Binary) };
    if has_private_key(text) {
        return Err(WithheldReason::PrivateKey);
    }
    Ok(match file.kind {
        FileKind::Config | FileKind::Cert => CFG,
        FileKind::Map => MAP_FILE,
        FileKind::CrtList => CRT_LIST_FILE,
        FileKind::General | FileKind::Ca | FileKind::Crl => GENERAL_FILE,
    })
}

#[cfg(test)]
mod tests;
