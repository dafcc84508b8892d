//! The filters.

use std::cmp::Ordering;

use haptic_plugin_sdk::{Arguments, FilterError};
use serde_json::Value;
use versions::Version;

use crate::{
    Semver,
    read::{self, Range},
};

pub(crate) fn compare(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [other] = arguments.bind(["other"])?;
    let other = other.ok_or_else(|| FilterError::refused("it needs an `other` version"))?;
    Ok(match read::version(&value)?.cmp_precedence(&read::version(&other)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
    .into())
}

pub(crate) fn satisfies(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [range] = arguments.bind(["range"])?;
    let range = range.ok_or_else(|| FilterError::refused("it needs a `range`, e.g. `>=1.2, <2`"))?;
    Ok(Range::read(&range)?.has(&read::version(&value)?).into())
}

pub(crate) fn sort(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [reverse] = arguments.bind(["reverse"])?;
    let reverse = match reverse {
        None => false,
        Some(Value::Bool(reverse)) => reverse,
        Some(_) => return Err(FilterError::refused("`reverse` must be true or false")),
    };
    let mut versions = read::versions(&value)?;
    versions.sort_by(|(a, _), (b, _)| if reverse { b.cmp_precedence(a) } else { a.cmp_precedence(b) });
    Ok(versions.iter().map(|(_, index)| value[*index].clone()).collect())
}

pub(crate) fn max(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    extreme(value, arguments, Ordering::Greater)
}

pub(crate) fn min(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    extreme(value, arguments, Ordering::Less)
}

/// The first version of the list than which no other is more `wanted`.
fn extreme(value: Value, arguments: Arguments, wanted: Ordering) -> Result<Value, FilterError> {
    let [range] = arguments.bind(["range"])?;
    let range = range.as_ref().map(Range::read).transpose()?;
    let mut best: Option<(Version, usize)> = None;
    for (version, index) in read::versions(&value)? {
        let counts = range.as_ref().is_none_or(|range| range.has(&version));
        if counts && best.as_ref().is_none_or(|(best, _)| version.cmp_precedence(best) == wanted) {
            best = Some((version, index));
        }
    }
    Ok(best.map_or(Value::Null, |(_, index)| value[index].clone()))
}

pub(crate) fn part(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [part] = arguments.bind(["part"])?;
    let Version { major, minor, patch, pre, build } = read::version(&value)?;
    match part.as_ref().and_then(Value::as_str) {
        Some("major") => Ok(major.into()),
        Some("minor") => Ok(minor.into()),
        Some("patch") => Ok(patch.into()),
        Some("pre") => Ok(pre.as_str().into()),
        Some("build") => Ok(build.as_str().into()),
        Some("minor_series") => Ok(format!("{major}.{minor}").into()),
        _ => {
            let message = "`part` must be `major`, `minor`, `patch`, `pre`, `build` or `minor_series`";
            Err(FilterError::refused(message))
        }
    }
}

pub(crate) fn valid(_: &Semver, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [] = arguments.bind([])?;
    Ok(read::version(&value).is_ok().into())
}
