//! `render_each`: per-object work, one unit an item. A unit that fails is left out and named; the others go on.

use std::sync::Arc;

use haptic_model::{Digest, Finding, FindingCode, ObjectRef, Origin};
use haptic_store::Object;
use minijinja::{
    Error, State, Value,
    value::{Object as DynObject, ObjectRepr},
};

use crate::{
    failure::{self, Cause},
    records::{Precedence, Records, UnitOutput},
    session::{self, Frame, safe, with},
    sink::MARK,
};

/// The root context of a unit: `item` and nothing else; all else is a global.
#[derive(Debug)]
struct UnitRoot {
    item: Value,
}

/// What makes an item the same item in the next render.
struct Identity {
    /// `Ingress/shop/web`, or the digest of a plain value.
    key: String,
    object: Option<ObjectRef>,
    /// Changes with the item's content.
    fingerprint: u64,
}

/// Renders `snippet` once for each of `items`, with the item as `item`.
pub(crate) fn render_each(state: &mut State, snippet: &str, items: &Value) -> Result<Value, Error> {
    if with(|session| session.in_unit())? {
        return Err(Cause::usage("`render_each` may not be used inside a unit").into());
    }
    let mut text = String::new();
    for item in items.try_iter()? {
        let identity = Identity::of(&item)?;
        let key: Arc<str> = format!("{snippet}/{}", identity.key).into();
        let output = unit(state, snippet, &key, &identity, item)?;
        with(|session| {
            if !output.text.trim().is_empty() {
                let index = session.units.len();
                text.push_str(&format!("{MARK}{index}{MARK}{}{MARK}{MARK}", output.text));
            }
            session.units.push(output);
        })?;
    }
    Ok(safe(text))
}

fn unit(
    state: &mut State,
    snippet: &str,
    key: &Arc<str>,
    identity: &Identity,
    item: Value,
) -> Result<Arc<UnitOutput>, Error> {
    let recalled = session::try_with(|session| {
        if !session.memo.see(key) {
            return Err(Cause::usage(format!("`render_each` was given `{key}` twice"))
                .hint("give each object once, e.g. only from one list"));
        }
        if session.inputs.quarantined.contains(key) {
            return Ok(Some(Arc::new(quarantined(snippet, key, identity, &item))));
        }
        let snapshot = Arc::clone(&session.inputs.snapshot);
        Ok(session.memo.recall(key, identity.fingerprint, &snapshot))
    })?;
    if let Some(output) = recalled {
        return Ok(output);
    }
    let origin = origin(snippet, key, identity);
    let precedence = Precedence::of(&item, identity.object.as_ref());
    with(|session| {
        session.push(Frame { object: identity.object.clone(), is_unit: true, ..Frame::default() });
    })?;
    let rendered =
        state.env().get_template(snippet).and_then(|template| template.render(Value::from_object(UnitRoot { item })));
    let frame = with(session::Session::pop)?;
    let output = match rendered {
        Ok(text) => UnitOutput::finish(text, origin, precedence, frame.records),
        Err(error) if session::ends_the_render(&error) => return Err(error),
        Err(error) => {
            let finding = with(|session| failure::finding(&session.names, &error, identity.object.clone()))?;
            UnitOutput::failed(origin, precedence, finding)
        }
    };
    with(|session| session.memo.remember(key, identity.fingerprint, frame.reads, output))
}

fn origin(snippet: &str, key: &Arc<str>, identity: &Identity) -> Arc<Origin> {
    Arc::new(Origin { template: snippet.into(), unit: Some(Arc::clone(key)), object: identity.object.clone() })
}

fn quarantined(snippet: &str, key: &Arc<str>, identity: &Identity, item: &Value) -> UnitOutput {
    let finding = Finding::error(
        FindingCode::RefusedByHAProxy,
        "HAProxy refused the configuration of this object; it is left out until it changes",
    )
    .about(identity.object.clone());
    let precedence = Precedence::of(item, identity.object.as_ref());
    let mut output = UnitOutput::finish(String::new(), origin(snippet, key, identity), precedence, Records::default());
    output.findings = Arc::new(vec![finding]);
    output
}

// === impl Identity ===

impl Identity {
    fn of(item: &Value) -> Result<Self, Error> {
        if let Some(object) = Object::from_value(item) {
            let reference = object.reference();
            let key = format!("{}/{}/{}", reference.kind, reference.namespace, reference.name);
            return Ok(Self { key, object: Some(reference.clone()), fingerprint: object.serial() });
        }
        let json = serde_json::to_string(item)
            .map_err(|error| Cause::usage(format!("an item of `render_each` is not plain data: {error}")))?;
        let digest = Digest::of(json.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_bytes()[..8]);
        Ok(Self { key: digest.short(), object: None, fingerprint: u64::from_be_bytes(first) })
    }
}

// === impl UnitRoot ===

impl DynObject for UnitRoot {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str()? == "item").then(|| self.item.clone())
    }
}
