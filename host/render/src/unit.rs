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
    snippet::PlayedUnit,
};

/// The root context of a unit: `item` and nothing else; all else is a global.
#[derive(Debug)]
struct UnitRoot {
    item: Value,
}

/// A unit as `render_each` gives it.
pub(crate) struct Given {
    /// The snippet's name, and `Ingress/shop/web` or the digest of a plain value: what makes it the same unit in the
    /// next render.
    pub(crate) key: Arc<str>,
    snippet: Arc<str>,
    item: Value,
    object: Option<ObjectRef>,
    /// Changes with the item's content.
    fingerprint: u64,
}

/// Renders `snippet` once for each of `items`, with the item as `item`.
pub(crate) fn render_each(state: &mut State, snippet: &str, items: &Value) -> Result<Value, Error> {
    if with(|session| session.in_unit())? {
        return Err(Cause::usage("`render_each` may not be used inside a unit").into());
    }
    let snippet: Arc<str> = snippet.into();
    let mut text = String::new();
    for item in items.try_iter()? {
        let unit = match with(|session| session.frame().earlier_unit(&snippet, &item))? {
            Some(unit) => {
                claim(&unit.given, Some(unit.owner))?;
                with(|session| session.memo.kept_one())?;
                unit
            }
            None => {
                let given = Arc::new(Given::new(&snippet, item)?);
                let owner = claim(&given, None)?;
                let output = evaluate(state, &given)?;
                let reads = with(|session| session.memo.reads(&given.key))?;
                let prints = !output.text.trim().is_empty();
                PlayedUnit { given, output, reads, owner, prints }
            }
        };
        with(|session| {
            if unit.prints {
                let index = session.units.len();
                text.push_str(&format!("{MARK}{index}{MARK}{}{MARK}{MARK}", unit.output.text));
            }
            session.units.push(Arc::clone(&unit.output));
            let frame = session.frame();
            if frame.snippet.is_some() {
                frame.played.push(unit);
            }
        })?;
    }
    Ok(safe(text))
}

/// Makes a unit part of this render, once. Returns where the memo notes it; `noted` is where it did before.
fn claim(given: &Given, noted: Option<u32>) -> Result<u32, Error> {
    session::try_with(|session| {
        let outer = session.frame().snippet.clone().unwrap_or_default();
        if let Some(owner) = session.memo.see(&given.key, noted, &outer) {
            return Ok(owner);
        }
        Err(Cause::usage(format!("`render_each` was given `{}` twice", given.key))
            .hint("give each object once, e.g. only from one list"))
    })
}

/// Renders a unit, or recalls what it gave.
pub(crate) fn evaluate(state: &mut State, given: &Given) -> Result<Arc<UnitOutput>, Error> {
    let recalled = with(|session| {
        if session.inputs.quarantined.contains(&given.key) {
            session.memo.forget(&given.key);
            return Some(Arc::new(quarantined(given)));
        }
        let snapshot = Arc::clone(&session.inputs.snapshot);
        session.memo.recall(&given.key, given.fingerprint, &snapshot)
    })?;
    if let Some(output) = recalled {
        return Ok(output);
    }
    let origin = given.origin();
    let precedence = Precedence::of(&given.item, given.object.as_ref());
    with(|session| session.push(Frame::of_unit(given.object.clone())))?;
    let root = Value::from_object(UnitRoot { item: given.item.clone() });
    let rendered = state.env().get_template(&given.snippet).and_then(|template| template.render(root));
    let frame = with(session::Session::pop)?;
    let output = match rendered {
        Ok(text) => UnitOutput::finish(text, origin, precedence, frame.records),
        Err(error) if session::ends_the_render(&error) => return Err(error),
        Err(error) => {
            let finding = with(|session| failure::finding(&session.names, &error, given.object.clone()))?;
            UnitOutput::failed(origin, precedence, finding)
        }
    };
    with(|session| session.memo.remember(&given.key, given.fingerprint, frame.reads.list, output))
}

fn quarantined(given: &Given) -> UnitOutput {
    let finding = Finding::error(
        FindingCode::RefusedByHAProxy,
        "HAProxy refused the configuration of this object; it is left out until it changes",
    )
    .about(given.object.clone());
    let precedence = Precedence::of(&given.item, given.object.as_ref());
    let mut output = UnitOutput::finish(String::new(), given.origin(), precedence, Records::default());
    output.findings = Arc::new(vec![finding]);
    output
}

// === impl Given ===

impl Given {
    fn new(snippet: &Arc<str>, item: Value) -> Result<Self, Error> {
        let snippet = Arc::clone(snippet);
        if let Some(object) = Object::from_value(&item) {
            let reference = object.reference();
            let key = format!("{snippet}/{}/{}/{}", reference.kind, reference.namespace, reference.name).into();
            let (object, fingerprint) = (Some(reference.clone()), object.serial());
            return Ok(Self { key, snippet, item, object, fingerprint });
        }
        let json = serde_json::to_string(&item)
            .map_err(|error| Cause::usage(format!("an item of `render_each` is not plain data: {error}")))?;
        let digest = Digest::of(json.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.as_bytes()[..8]);
        let key = format!("{snippet}/{}", digest.short()).into();
        Ok(Self { key, snippet, item, object: None, fingerprint: u64::from_be_bytes(first) })
    }

    /// Whether this unit renders `snippet` for `object`, in this state of it.
    pub(crate) fn is_of(&self, snippet: &str, object: &Object) -> bool {
        self.object.is_some() && self.fingerprint == object.serial() && *self.snippet == *snippet
    }

    fn origin(&self) -> Arc<Origin> {
        Arc::new(Origin {
            template: Arc::clone(&self.snippet),
            unit: Some(Arc::clone(&self.key)),
            object: self.object.clone(),
        })
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
