use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Filters for templates: `{{ value | name(positional, named=…) }}`.
///
/// Filters must be pure: haptic remembers answers and does not call again with the same arguments.
///
/// ```
/// use haptic_plugin_sdk::{Arguments, Filter, FilterError, NoConfig, TemplateFilters};
/// use serde_json::Value;
///
/// struct Words;
///
/// impl Words {
///     fn shout(&self, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
///         let [mark] = arguments.bind(["mark"])?;
///         let mark = mark.unwrap_or_else(|| "!".into());
///         match (value.as_str(), mark.as_str()) {
///             (Some(text), Some(mark)) => Ok(format!("{}{mark}", text.to_uppercase()).into()),
///             _ => Err(FilterError::refused("the value and `mark` must be strings")),
///         }
///     }
/// }
///
/// impl TemplateFilters for Words {
///     type Config = NoConfig;
///     const FILTERS: &'static [Filter<Self>] =
///         &[Filter::new("shout", "The text in upper case, with `mark` (default `!`) after it.", Self::shout)];
///
///     fn new(_: NoConfig) -> Result<Self, String> {
///         Ok(Self)
///     }
/// }
///
/// haptic_plugin_sdk::export! { template_filters: Words }
///
/// use haptic_plugin_sdk::testing;
/// let answer = testing::call_filter::<Words>(serde_json::json!({}), "shout", "hi".into(), &[], &[]);
/// assert_eq!(answer, Ok("HI!".into()));
/// ```
pub trait TemplateFilters: Sized + 'static {
    /// What the plugin's `config` must hold. Use `#[serde(deny_unknown_fields)]`; use [`crate::NoConfig`] if there is
    /// nothing to set.
    type Config: DeserializeOwned;

    /// Every filter on offer.
    const FILTERS: &'static [Filter<Self>];

    /// Makes the filters' common state. The error says which field is wrong and what would be right; haptic then
    /// refuses to load the plugin.
    fn new(config: Self::Config) -> Result<Self, String>;
}

/// One filter.
pub struct Filter<T> {
    name: &'static str,
    doc: &'static str,
    apply: Apply<T>,
}

type Apply<T> = fn(&T, Value, Arguments) -> Result<Value, FilterError>;

/// What stands in the parentheses of a filter call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

/// Why a filter has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// This value or these arguments are wrong: only what was being rendered with them is left out.
    Refused(String),
    /// The plugin cannot answer, whatever the arguments: the render fails.
    Failed(String),
}

// === impl Filter ===

impl<T> Filter<T> {
    /// `name` is how templates call it: lower-case letters, digits and `_`, starting with a letter. `doc` says what it
    /// does, its arguments and its result.
    pub const fn new(name: &'static str, doc: &'static str, apply: Apply<T>) -> Self {
        Self { name, doc, apply }
    }

    /// How templates call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it does.
    pub fn doc(&self) -> &'static str {
        self.doc
    }

    pub(crate) fn apply(&self, filters: &T, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
        (self.apply)(filters, value, arguments)
    }
}

impl<T> fmt::Debug for Filter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("name", &self.name).finish_non_exhaustive()
    }
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn new(positional: Vec<Value>, named: Vec<(String, Value)>) -> Self {
        Self { positional, named }
    }

    /// Gives each parameter its argument, by place or by name; `None` where there is none. Too many arguments, an
    /// unknown name and an argument given twice are refused.
    pub fn bind<const N: usize>(self, parameters: [&str; N]) -> Result<[Option<Value>; N], FilterError> {
        let mut bound = [const { None }; N];
        if self.positional.len() > N {
            let count = self.positional.len();
            return Err(FilterError::refused(format!("it takes at most {N} arguments, but has {count}")));
        }
        for (place, value) in bound.iter_mut().zip(self.positional) {
            *place = Some(value);
        }
        for (name, value) in self.named {
            let Some(index) = parameters.iter().position(|parameter| *parameter == name) else {
                let known = if N == 0 { "none".to_owned() } else { format!("`{}`", parameters.join("`, `")) };
                return Err(FilterError::refused(format!("it has no parameter `{name}`; known: {known}")));
            };
            if bound[index].replace(value).is_some() {
                return Err(FilterError::refused(format!("`{name}` is given twice")));
            }
        }
        Ok(bound)
    }
}

// === impl FilterError ===

impl FilterError {
    /// This value or these arguments are wrong. Say what is, and what would be right.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }

    /// The plugin cannot answer, whatever the arguments.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for FilterError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(positional: &[i32], named: &[(&str, i32)]) -> Arguments {
        let named = named.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        Arguments::new(positional.iter().map(|value| (*value).into()).collect(), named)
    }

    #[test]
    fn binds_by_place_and_by_name() {
        let bound = arguments(&[1], &[("c", 3)]).bind(["a", "b", "c"]);
        assert_eq!(bound, Ok([Some(1.into()), None, Some(3.into())]));
    }

    #[test]
    fn refuses_what_it_does_not_know_or_has_already() {
        assert!(arguments(&[1, 2], &[]).bind(["a"]).is_err());
        assert!(arguments(&[], &[("b", 1)]).bind(["a"]).is_err());
        assert!(arguments(&[1], &[("a", 1)]).bind(["a"]).is_err());
        assert!(arguments(&[], &[("a", 1), ("a", 2)]).bind(["a"]).is_err());
    }
}
