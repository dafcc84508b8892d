//! From a diff to the manifest of an apply: the whole set by name and digest, and the content the agent does not have.

use std::collections::BTreeMap;

use bytes::Bytes;
use haptic_haproxy::plan::Diff;
use haptic_model::{CONFIG_PATH, Digest, FilePath, Plan, PlanId, Verdict};
use haptic_wire::{API_VERSION, ApplyManifest, ApplyMode, BindAddress, ManifestFile, Token};

use crate::{deployer::known::Known, pipeline::Render};

/// An apply of the render as `diff` decided. `missing` names what the agent asked for.
pub(super) fn apply(
    render: &Render,
    diff: Diff,
    known: &Known,
    token: Token,
    validated: Option<PlanId>,
    missing: &[FilePath],
) -> (ApplyManifest, Vec<Bytes>) {
    let (plan, files) = (&render.output.rendered.plan, &render.output.rendered.files);
    let mut manifest = frame(plan, known, token, validated);
    manifest.reload_interval_ms = Some(u64::try_from(render.reload_interval.as_millis()).unwrap_or(u64::MAX));
    if diff.verdict == Verdict::Reload {
        manifest.mode = ApplyMode::Reload;
        manifest.expected_worker = None;
    }
    manifest.ops = diff.ops;
    manifest.in_place_ops = diff.in_place_ops;
    manifest.reasons = diff.reasons;
    manifest.parts = parts(plan, &known.files, missing);
    let content = manifest.parts.iter().filter_map(|path| files.get(path)).map(|file| file.content.clone()).collect();
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
    }
}

fn frame(plan: &Plan, known: &Known, token: Token, validated_plan: Option<PlanId>) -> ApplyManifest {
    let files = plan.files.iter().map(|(path, file)| ManifestFile {
        path: path.clone(),
        digest: file.digest,
        size: file.size,
        kind: file.kind,
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
