//! From a diff to the manifest of an apply: the whole set by name and digest, and the content the agent does not have.

use std::collections::BTreeMap;

use bytes::Bytes;
use haptic_haproxy::plan::Diff;
use haptic_model::{CONFIG_PATH, Digest, File, FilePath, Plan, PlanId, Verdict};
use haptic_wire::{API_VERSION, ApplyManifest, ApplyMode, BindAddress, FilePatch, ManifestFile, Token};

use crate::{
    deployer::{known::Known, patch::patch},
    pipeline::Render,
};

/// What is sent, besides what the diff decided.
pub(super) struct Sending<'a> {
    pub(super) render: &'a Render,
    /// What the pod was sent before.
    pub(super) before: Option<&'a Render>,
    pub(super) token: Token,
    pub(super) validated: Option<PlanId>,
    /// Content that the agent asked for.
    pub(super) missing: &'a [FilePath],
}

/// An apply of the render as `diff` decided.
pub(super) fn apply(sending: &Sending<'_>, diff: Diff, known: &Known) -> (ApplyManifest, Vec<Bytes>) {
    let render = sending.render;
    let plan = &render.output.rendered.plan;
    let mut manifest = frame(plan, known, sending.token, sending.validated);
    manifest.reload_interval_ms = Some(u64::try_from(render.pacing.reload_interval.as_millis()).unwrap_or(u64::MAX));
    manifest.correlation = Some(render.correlation.to_string());
    if diff.verdict == Verdict::Reload {
        manifest.mode = ApplyMode::Reload;
        manifest.expected_worker = None;
    }
    manifest.ops = diff.ops;
    manifest.in_place_ops = diff.in_place_ops;
    manifest.reasons = diff.reasons;
    manifest.parts = parts(plan, &known.files, sending.missing);
    let mut content = Vec::with_capacity(manifest.parts.len());
    for path in &manifest.parts {
        let Some(file) = render.output.rendered.files.get(path) else { continue };
        let Some((patch, part)) = sending.difference(file, known) else {
            content.push(file.content.clone());
            continue;
        };
        if let Some(named) = manifest.files.iter_mut().find(|named| named.path == *path) {
            named.patch = Some(patch);
        }
        content.push(part);
    }
    (manifest, content)
}

/// Changes nothing; names `validated` so that the agent promotes it.
pub(super) fn promotion(plan: &Plan, known: &Known, token: Token, validated: PlanId) -> ApplyManifest {
    frame(plan, known, token, Some(validated))
}

/// Back to the last known good set, if the agent took `refused` without loading it.
pub(super) fn revert(refused: PlanId, known: &Known, token: Token) -> ApplyManifest {
    ApplyManifest {
        api_version: API_VERSION,
        plan_id: refused,
        token,
        expected_plan: Some(refused),
        expected_worker: known.worker,
        validated_plan: None,
        mode: ApplyMode::RevertLkg,
        files: Vec::new(),
        parts: Vec::new(),
        binds: Vec::new(),
        ops: Vec::new(),
        in_place_ops: Vec::new(),
        reasons: Vec::new(),
        reload_interval_ms: None,
        correlation: None,
    }
}

fn frame(plan: &Plan, known: &Known, token: Token, validated_plan: Option<PlanId>) -> ApplyManifest {
    let files = plan.files.iter().map(|(path, file)| ManifestFile {
        path: path.clone(),
        digest: file.digest,
        size: file.size,
        kind: file.kind,
        patch: None,
    });
    let mut binds: Vec<_> =
        plan.binds.iter().map(|bind| BindAddress { address: bind.address, port: bind.port }).collect();
    binds.sort();
    binds.dedup();
    ApplyManifest {
        api_version: API_VERSION,
        plan_id: plan.id,
        token,
        expected_plan: known.applied,
        expected_worker: known.worker,
        validated_plan,
        mode: ApplyMode::Auto,
        files: files.collect(),
        parts: Vec::new(),
        binds,
        ops: Vec::new(),
        in_place_ops: Vec::new(),
        reasons: Vec::new(),
        reload_interval_ms: None,
        correlation: None,
    }
}

impl Sending<'_> {
    /// How the agent makes the file from what it has, if that is less to send.
    fn difference(&self, file: &File, known: &Known) -> Option<(FilePatch, Bytes)> {
        let on_disk =
            known.files.get(&file.path).filter(|_| known.takes_patches && !self.missing.contains(&file.path))?;
        let old = self.before?.output.rendered.files.get(&file.path).filter(|old| old.digest == *on_disk)?;
        patch(old, file)
    }
}

/// Files whose content the agent does not have, the configuration last: it is what makes the others matter.
fn parts(plan: &Plan, on_disk: &BTreeMap<FilePath, Digest>, missing: &[FilePath]) -> Vec<FilePath> {
    let absent = |path: &FilePath, digest: Digest| on_disk.get(path) != Some(&digest) || missing.contains(path);
    let mut parts: Vec<_> =
        plan.files.iter().filter(|(path, file)| absent(path, file.digest)).map(|(path, _)| path.clone()).collect();
    parts.sort_by_key(|path| path.as_str() == CONFIG_PATH);
    parts
}
