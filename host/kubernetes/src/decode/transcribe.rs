//! One object as compact JSON text, written while it is read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An object without what is never stored, and what was seen on the way.
#[derive(Debug, Default)]
pub(crate) struct Transcribed {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    /// Empty if it has none.
    pub(crate) resource_version: String,
    /// The annotation of a bookmark that ends the first events of a streaming list.
    pub(crate) ends_initial_events: bool,
    pub(crate) json: String,
}

/// Reads one object, to which this version and kind are given.
#[derive(Clone, Copy)]
pub(crate) struct Transcribe<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

/// Where in an object a map stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Metadata,
    Annotations,
    Within,
}

struct Writer<'a> {
    into: &'a mut Transcribed,
    place: Place,
}

/// A text of the metadata that is also remembered.
struct Remembered<'a> {
    json: &'a mut String,
    text: &'a mut Option<String>,
}

// === impl Transcribe ===

impl<'de> DeserializeSeed<'de> for Transcribe<'_> {
    type Value = Transcribed;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Transcribed, D::Error> {
        let mut transcribed = Transcribed::default();
        let json = &mut transcribed.json;
        json.push_str("{\"apiVersion\":");
        string(json, self.api_version);
        json.push_str(",\"kind\":");
        string(json, self.kind);
        deserializer.deserialize_map(Writer { into: &mut transcribed, place: Place::Root })?;
        Ok(transcribed)
    }
}

// === impl Writer ===

impl<'de> DeserializeSeed<'de> for Writer<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Writer<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.into.json.push_str("null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.into.json.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        number(&mut self.into.json, value.into());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        number(&mut self.into.json, value.into());
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        let value = serde_json::Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        number(&mut self.into.json, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        string(&mut self.into.json, value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.into.json.push('[');
        let mut first = true;
        loop {
            let length = self.into.json.len();
            if !std::mem::take(&mut first) {
                self.into.json.push(',');
            }
            if items.next_element_seed(Writer { into: self.into, place: Place::Within })?.is_none() {
                self.into.json.truncate(length);
                break;
            }
        }
        self.into.json.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Self { into, place } = self;
        // The root is open already: its first two fields are written.
        let mut first = place != Place::Root;
        if first {
            into.json.push('{');
        }
        while let Some(name) = fields.next_key_seed(Name)? {
            let name = name.as_ref();
            match (place, name) {
                (Place::Root, "apiVersion" | "kind")
                | (Place::Metadata, "managedFields")
                | (Place::Annotations, LAST_APPLIED) => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Place::Metadata, "resourceVersion") => {
                    into.resource_version = fields.next_value::<Option<String>>()?.unwrap_or_default();
                    continue;
                }
                _ => {}
            }
            if !std::mem::take(&mut first) {
                into.json.push(',');
            }
            string(&mut into.json, name);
            into.json.push(':');
            match (place, name) {
                (Place::Root, "metadata") => fields.next_value_seed(Writer { into, place: Place::Metadata })?,
                (Place::Metadata, "annotations") => {
                    fields.next_value_seed(Writer { into, place: Place::Annotations })?;
                }
                (Place::Metadata, "name") => {
                    fields.next_value_seed(Remembered { json: &mut into.json, text: &mut into.name })?;
                }
                (Place::Metadata, "namespace") => {
                    fields.next_value_seed(Remembered { json: &mut into.json, text: &mut into.namespace })?;
                }
                _ => {
                    into.ends_initial_events |= place == Place::Annotations && name == INITIAL_EVENTS_END;
                    fields.next_value_seed(Writer { into, place: Place::Within })?;
                }
            }
        }
        into.json.push('}');
        Ok(())
    }
}

// === impl Remembered ===

impl<'de> DeserializeSeed<'de> for Remembered<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let text = <Option<String> as serde::Deserialize>::deserialize(deserializer).map_err(D::Error::custom)?;
        string(self.json, text.as_deref().unwrap_or_default());
        *self.text = text;
        Ok(())
    }
}

/// A field's name, borrowed from the input where nothing in it is escaped.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = std::borrow::Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = std::borrow::Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(name.into())
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(name.to_owned().into())
    }
}

fn string(json: &mut String, text: &str) {
    // What needs no escape is most of it.
    if text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        json.push_str(&serde_json::to_string(text).expect("a text is always valid JSON"));
    }
}

fn number(json: &mut String, number: serde_json::Number) {
    use fmt::Write as _;
    write!(json, "{number}").expect("writing to a text never fails");
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";
