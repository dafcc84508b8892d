//! From values to versions and ranges, or to words on why not.

use haptic_plugin_sdk::FilterError;
use parts::cut;
use serde_json::Value;
use versions::{Version, VersionReq};

/// Beyond any version that people write.
const MAX_BYTES: usize = 256;

/// A version; one `v` in front is allowed, as in tags.
pub(crate) fn version(value: &Value) -> Result<Version, FilterError> {
    let Some(text) = value.as_str() else {
        return Err(FilterError::refused(format!("`{}` is no text; write e.g. `1.2.3`", cut(&value.to_string()))));
    };
    let bare = text.strip_prefix('v').unwrap_or(text);
    if bare.len() > MAX_BYTES {
        let message = format!("the version has {} bytes; at most {MAX_BYTES} are read", text.len());
        return Err(FilterError::refused(message));
    }
    Version::parse(bare).map_err(|error| {
        let parts = bare.split(['-', '+']).next().unwrap_or_default().split('.').count();
        let hint = if parts < 3 { "; all of `major.minor.patch` are needed" } else { "" };
        FilterError::refused(format!("`{}` is no semantic version: {error}{hint}", cut(text)))
    })
}

/// The versions of a list, each with its index.
pub(crate) fn versions(value: &Value) -> Result<Vec<(Version, usize)>, FilterError> {
    let Value::Array(values) = value else {
        return Err(FilterError::refused("the value must be a list of versions"));
    };
    values.iter().enumerate().map(|(index, value)| Ok((version(value)?, index))).collect()
}

/// Alternatives, of which one must match.
#[derive(Debug)]
pub(crate) struct Range(Vec<VersionReq>);

impl Range {
    pub(crate) fn read(value: &Value) -> Result<Self, FilterError> {
        let Some(text) = value.as_str() else {
            return Err(FilterError::refused("`range` must be text, e.g. `>=1.2, <2`"));
        };
        if text.len() > MAX_BYTES {
            let message = format!("`range` has {} bytes; at most {MAX_BYTES} are read", text.len());
            return Err(FilterError::refused(message));
        }
        let alternatives = text.split("||").map(|alternative| {
            VersionReq::parse(alternative.trim()).map_err(|error| {
                let spaced = alternative.trim().contains(' ') && !alternative.contains(',');
                let hint = if spaced { "; join conditions with a comma: `>=1.2, <2`" } else { "" };
                FilterError::refused(format!("`{}` is no range: {error}{hint}", cut(text)))
            })
        });
        alternatives.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn has(&self, version: &Version) -> bool {
        self.0.iter().any(|alternative| alternative.matches(version))
    }
}
