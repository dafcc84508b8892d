//! `resources.<name>.list()`, `.select(path, values)`, `.fetch(key…)`, `.get_single(key…)`: tracked reads of the snapshot.

use std::sync::Arc;

use haptic_model::FindingCode;
use haptic_store::Read;
use minijinja::{
    Error, ErrorKind, State, Value,
    value::{Object, ObjectRepr},
};

use crate::{failure::Cause, session::with};

/// The global `resources`.
#[derive(Debug)]
pub(crate) struct Resources;

/// The global `haproxy`.
#[derive(Debug)]
pub(crate) struct Haproxy;

#[derive(Debug)]
struct Resource {
    name: Arc<str>,
}

// === impl Resources ===

impl Object for Resources {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.to_str()?;
        let known = with(|session| session.inputs.snapshot.arity(&name).is_some()).unwrap_or(false);
        known.then(|| Value::from_object(Resource { name }))
    }
}

// === impl Resource ===

impl Object for Resource {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn call_method(self: &Arc<Self>, _: &mut State, method: &str, args: &[Value]) -> Result<Value, Error> {
        let resource = Arc::clone(&self.name);
        match method {
            "list" => {
                if !args.is_empty() {
                    return Err(Cause::usage(format!("`resources.{resource}.list()` takes no argument")).into());
                }
                let snapshot = with(|session| session.read(Read::List { resource: Arc::clone(&resource) }))?;
                snapshot.list(&resource).map(|objects| values(&objects)).map_err(|error| system(&error))
            }
            // What `list() | selectattr(path, "in", values)` gives, without a value of the engine for each step of each path.
            "select" => {
                let [path, wanted] = args else {
                    return Err(Cause::usage(format!(
                        "`resources.{resource}.select(path, values)` takes two arguments"
                    ))
                    .into());
                };
                let path = path.to_str().filter(|path| !path.is_empty()).ok_or_else(|| {
                    Cause::usage(format!(
                        "the path of `resources.{resource}.select(path, values)` is text like `spec.type`"
                    ))
                })?;
                let path: Vec<&str> = path.split('.').collect();
                let wanted: Vec<Value> = wanted.try_iter()?.collect();
                let snapshot = with(|session| session.read(Read::List { resource: Arc::clone(&resource) }))?;
                let objects = snapshot.list(&resource).map_err(|error| system(&error))?;
                let is_wanted =
                    |object: &&Arc<haptic_store::Object>| object.at(&path).is_some_and(|it| wanted.contains(it));
                Ok(objects.iter().filter(is_wanted).map(haptic_store::Object::as_value).collect())
            }
            "fetch" | "get_single" => {
                let keys = keys(&resource, method, args)?;
                let read = Read::Fetch { resource: Arc::clone(&resource), keys: keys.clone() };
                let snapshot = with(|session| session.read(read))?;
                if method == "fetch" {
                    snapshot.fetch(&resource, &keys).map(|objects| values(&objects)).map_err(|error| system(&error))
                } else {
                    let single = snapshot.get_single(&resource, &keys).map_err(|error| system(&error))?;
                    Ok(single.map_or_else(|| Value::from(()), |object| object.as_value()))
                }
            }
            _ => Err(Error::new(
                ErrorKind::UnknownMethod,
                format!(
                    "a resource has list(), select(path, values), fetch(key…) and get_single(key…), not `{method}`"
                ),
            )),
        }
    }
}

fn keys(resource: &str, method: &str, args: &[Value]) -> Result<Box<[Arc<str>]>, Error> {
    args.iter()
        .map(|arg| {
            arg.to_str().or_else(|| arg.as_i64().map(|number| number.to_string().into())).ok_or_else(|| {
                Cause::data(
                    FindingCode::InvalidValue,
                    format!("a key of `resources.{resource}.{method}(…)` must be text, not {}", arg.kind()),
                )
                .into()
            })
        })
        .collect()
}

fn values(objects: &[Arc<haptic_store::Object>]) -> Value {
    objects.iter().map(haptic_store::Object::as_value).collect()
}

fn system(error: &haptic_store::ReadError) -> Error {
    Cause::system(FindingCode::TemplateFailed, error.to_string()).into()
}

// === impl Haproxy ===

impl Object for Haproxy {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (major, minor) = with(|session| session.inputs.haproxy).ok()?;
        match key.as_str()? {
            "version" => Some(Value::from(vec![major, minor])),
            _ => None,
        }
    }

    fn call_method(self: &Arc<Self>, _: &mut State, method: &str, args: &[Value]) -> Result<Value, Error> {
        let number = |index: usize| args.get(index).and_then(Value::as_i64).and_then(|n| u16::try_from(n).ok());
        match (method, number(0), number(1)) {
            ("at_least", Some(major), Some(minor)) => {
                Ok(Value::from(with(|session| session.inputs.haproxy)? >= (major, minor)))
            }
            _ => Err(Cause::usage("`haproxy` has `version` and `at_least(major, minor)`").into()),
        }
    }
}
