//! One line of a watch.

use std::fmt;

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor},
};

use crate::{
    ResourceVersion,
    decode::{
        Malformed,
        transcribe::{Transcribe, Transcribed},
    },
    discovery::Served,
    trouble::Status,
};

#[derive(Debug)]
pub(crate) enum Event {
    /// It was made or changed; the two differ only in what the watcher has seen before.
    Upsert(Transcribed),
    /// It was deleted, or the selectors do not take it any more.
    Delete(Transcribed),
    /// Everything up to this version was sent.
    Bookmark { version: ResourceVersion, ends_initial_events: bool },
    /// The watch is over.
    Error(Status),
}

pub(crate) fn read_event(line: &[u8], served: &Served) -> Result<Event, Malformed> {
    let seed = Line(Transcribe { api_version: &served.api_version, kind: &served.kind });
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let (kind, object) = seed.deserialize(&mut deserializer).map_err(Malformed::Json)?;
    deserializer.end().map_err(Malformed::Json)?;
    match kind.as_str() {
        "ADDED" | "MODIFIED" => Ok(Event::Upsert(object)),
        "DELETED" => Ok(Event::Delete(object)),
        "BOOKMARK" => {
            Ok(Event::Bookmark { version: object.version(), ends_initial_events: object.ends_initial_events })
        }
        "ERROR" => {
            let status = serde_json::from_str(&object.json).map_err(Malformed::Json)?;
            Ok(Event::Error(status))
        }
        _ => Err(Malformed::UnknownEvent(kind)),
    }
}

struct Line<'a>(Transcribe<'a>);

// === impl Line ===

impl<'de> DeserializeSeed<'de> for Line<'_> {
    type Value = (String, Transcribed);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Line<'_> {
    type Value = (String, Transcribed);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event with `type` and `object`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut object) = (None, None);
        while let Some(name) = fields.next_key()? {
            match name {
                Field::Type => kind = Some(fields.next_value()?),
                Field::Object => object = Some(fields.next_value_seed(self.0)?),
                Field::Other => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        let missing = <A::Error as serde::de::Error>::missing_field;
        Ok((kind.ok_or_else(|| missing("type"))?, object.ok_or_else(|| missing("object"))?))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    Type,
    Object,
    #[serde(other)]
    Other,
}
