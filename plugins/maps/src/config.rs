//! What can be set, and what a file is used as.

use serde::Deserialize;

/// Everything has a default: a file that no rule names is read as `haproxy.cfg` uses it, if that is a data file, or
/// else as its name tells.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Config {
    /// How files are used; the first rule whose `files` match counts.
    rules: Vec<Rule>,
    /// What an entry that can never be found is. Default: a warning.
    pub(crate) unreachable: Severity,
    /// What a key of a map without a value is. Default: a warning.
    pub(crate) empty_values: Severity,
    /// HAProxy's `tune.bufsize`: it reads a longer line as two. Default 16384.
    pub(crate) buffer_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Rule {
    /// Globs over whole paths; `*` and `?` stop at `/`, `**` does not.
    files: Vec<String>,
    /// Default: a list for `.acl`, `.list` and `.lst`, a map for all others.
    kind: Option<Kind>,
    /// Default: unknown, so that only what is wrong with every pattern is found.
    #[serde(rename = "match")]
    matching: Option<Match>,
    /// What values are. Default: text.
    #[serde(default)]
    value: Value,
    /// Whether entries should be sorted by bytes.
    #[serde(default)]
    sorted: bool,
}

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Ignore,
    Warning,
    Error,
}

/// Lines of `key value`, or of patterns alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Map,
    List,
}

/// How HAProxy compares, as in `map_beg` and `-m beg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Match {
    Beg,
    Bin,
    Bool,
    Dir,
    Dom,
    End,
    Int,
    Ip,
    Len,
    Reg,
    /// As `Reg`, with groups that are remembered.
    Regm,
    Str,
    Sub,
}

/// What the values of a map are, as in `map_str_int`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Value {
    #[default]
    Str,
    Int,
    Ip,
}

/// One way in which a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) kind: Kind,
    /// `None` = unknown.
    pub(crate) matching: Option<Match>,
    pub(crate) value: Value,
    pub(crate) sorted: bool,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            unreachable: Severity::Warning,
            empty_values: Severity::Warning,
            buffer_bytes: 16_384,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.buffer_bytes < 1024 {
            return Err("`bufferBytes` must be HAProxy's `tune.bufsize`, at least 1024".to_owned());
        }
        match self.rules.iter().position(|rule| rule.files.iter().all(|glob| glob.trim().is_empty())) {
            Some(index) => Err(format!("`rules[{index}].files` must name files, e.g. `maps/*.map`")),
            None => Ok(()),
        }
    }

    /// How the rules say that the file is used.
    pub(crate) fn of(&self, path: &str) -> Option<Use> {
        let matches = |rule: &&Rule| rule.files.iter().any(|glob| fast_glob::glob_match(glob, path));
        let rule = self.rules.iter().find(matches)?;
        Some(Use {
            kind: rule.kind.unwrap_or_else(|| Use::by_name(path).kind),
            matching: rule.matching,
            value: rule.value,
            sorted: rule.sorted,
        })
    }
}

// === impl Match ===

impl Match {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "beg" => Self::Beg,
            "bin" => Self::Bin,
            "bool" | "found" => Self::Bool,
            "dir" => Self::Dir,
            "dom" => Self::Dom,
            "end" => Self::End,
            "int" => Self::Int,
            "ip" => Self::Ip,
            "len" => Self::Len,
            "reg" => Self::Reg,
            "regm" => Self::Regm,
            "str" => Self::Str,
            "sub" => Self::Sub,
            _ => return None,
        })
    }
}

// === impl Use ===

impl Use {
    /// What the name of a file tells.
    pub(crate) fn by_name(path: &str) -> Self {
        let extension = path.rsplit('.').next().unwrap_or_default();
        let kind = if matches!(extension, "acl" | "list" | "lst") { Kind::List } else { Kind::Map };
        Self { kind, matching: None, value: Value::Str, sorted: false }
    }
}
