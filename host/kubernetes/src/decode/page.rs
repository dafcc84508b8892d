//! One page of a list.

use std::fmt;

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    ResourceVersion,
    decode::{
        Malformed,
        transcribe::{Transcribe, Transcribed},
    },
    discovery::Served,
};

#[derive(Debug)]
pub(crate) struct Page {
    /// The version of the whole list, the same on each of its pages.
    pub(crate) version: ResourceVersion,
    /// What to ask for the next page with; `None` on the last one.
    pub(crate) next: Option<String>,
    pub(crate) items: Vec<Transcribed>,
}

pub(crate) fn read_page(body: &[u8], served: &Served) -> Result<Page, Malformed> {
    let seed = List(Transcribe { api_version: &served.api_version, kind: &served.kind });
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let (metadata, items) = seed.deserialize(&mut deserializer).map_err(Malformed::Json)?;
    // A body that was cut is not a shorter list.
    deserializer.end().map_err(Malformed::Json)?;
    let version = metadata.resource_version.filter(|version| !version.is_empty()).ok_or(Malformed::Unversioned)?;
    let next = metadata.next.filter(|next| !next.is_empty());
    Ok(Page { version: version.as_str().into(), next, items })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

struct List<'a>(Transcribe<'a>);

struct Items<'a>(Transcribe<'a>);

// === impl List ===

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = (Metadata, Vec<Transcribed>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = (Metadata, Vec<Transcribed>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list with `metadata` and `items`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut metadata, mut items) = (None, None);
        while let Some(name) = fields.next_key()? {
            match name {
                Field::Metadata => metadata = Some(fields.next_value()?),
                Field::Items => items = Some(fields.next_value_seed(Items(self.0))?),
                Field::Other => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        let missing = <A::Error as serde::de::Error>::missing_field;
        Ok((metadata.ok_or_else(|| missing("metadata"))?, items.ok_or_else(|| missing("items"))?))
    }
}

// === impl Items ===

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<Transcribed>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<Transcribed>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    /// An empty list of a custom resource was `null` in some servers.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self.0)? {
            items.push(item);
        }
        Ok(items)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    Metadata,
    Items,
    #[serde(other)]
    Other,
}
