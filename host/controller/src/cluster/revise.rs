//! Read, compare, write: a status is written only where it differs, and never over a newer state of its object.

use haptic_kubernetes::{Objects, Trouble};
use serde_json::{Value, json};

/// Conflicts in a row before it is left to the next pass.
const ATTEMPTS: usize = 4;

/// What became of a status.
#[derive(Debug)]
pub(super) enum Revised {
    /// It says it already, or somebody knows more.
    Same,
    /// The object as the server answered.
    Written(Value),
    /// The object, or the one with that UID, is not there.
    Gone,
}

/// `revise` gets the whole object and gives the patch of its status, `None` = leave it.
pub(super) async fn revise(
    objects: &Objects,
    name: &str,
    uid: Option<&str>,
    mut revise: impl FnMut(&Value) -> Option<Value>,
) -> Result<Revised, Trouble> {
    let mut attempt = 1;
    loop {
        let Some(object) = objects.get(name).await? else { return Ok(Revised::Gone) };
        if uid.is_some() && text(&object, "/metadata/uid") != uid {
            return Ok(Revised::Gone);
        }
        let Some(status) = revise(&object) else { return Ok(Revised::Same) };
        let version = text(&object, "/metadata/resourceVersion").unwrap_or_default();
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        match objects.merge_status(name, &patch).await {
            Ok(object) => return Ok(Revised::Written(object)),
            Err(trouble) if trouble.is_not_found() => return Ok(Revised::Gone),
            Err(trouble) if trouble.is_conflict() && attempt < ATTEMPTS => attempt += 1,
            Err(trouble) => return Err(trouble),
        }
    }
}

/// A text of a JSON document.
pub(super) fn text<'a>(document: &'a Value, pointer: &str) -> Option<&'a str> {
    document.pointer(pointer).and_then(Value::as_str)
}
