//! The filters of one render: an instance per plugin, and a memory of what was answered.

use std::{collections::HashMap, sync::Arc, time::Instant};

use foldhash::fast::RandomState;
use haptic_model::ports::{Contract, FilterCall, FilterError, FilterSession, PluginFailure, PluginFailureKind};
use wasmtime::Store;

use crate::{
    answered::Answered,
    call::{self, Call},
    canonical,
    failure::classify,
    plugin::LoadedPlugin,
    report::printable,
    stack,
    ticker::InFlight,
    v1::template_filters::{self, FilterError as GuestError},
};

/// Longest own words of a filter that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Which plugin offers a filter.
pub(crate) type FilterIndex = HashMap<String, Offered, RandomState>;

pub(crate) struct Offered {
    pub(crate) plugin: Arc<LoadedPlugin>,
    /// Where the plugin's instance stands among those of a session.
    pub(crate) place: usize,
    /// Its own among all filters of a set.
    pub(crate) number: u32,
}

/// Filters of one render. Filters are pure, so an answer is remembered by filter and canonical arguments. A filter's
/// name stands for one module, generation and config: a set cannot have it twice, nor change while the session lives.
pub(crate) struct Session {
    filters: Arc<FilterIndex>,
    instances: Vec<Option<Instance>>,
    answered: Answered,
    /// The key that is being looked for, here so that most calls allocate nothing for it.
    key: Vec<u8>,
}

pub(crate) struct Instance {
    pub(crate) store: Store<Call>,
    guest: template_filters::Guest,
    _in_flight: InFlight,
}

// === impl Session ===

impl Session {
    pub(crate) fn new(filters: Arc<FilterIndex>) -> Self {
        Self { filters, instances: Vec::new(), answered: Answered::default(), key: Vec::new() }
    }

    fn answer(&mut self, call: FilterCall<'_>) -> Result<String, FilterError> {
        let Self { filters, instances, answered, key } = self;
        let refused = |message: String| FilterError::Refused { filter: call.filter.to_owned(), message };
        let Some(offered) = filters.get(call.filter) else {
            return Err(refused("no plugin offers this filter".to_owned()));
        };
        write_key(key, offered.number, call);
        let hash = answered.hash(key);
        if let Some(answer) = answered.get(hash, key) {
            return answer.map(str::to_owned).map_err(|message| refused(message.to_owned()));
        }
        let answer = run(instances, offered, call)?;
        answered.put(hash, key, answer.as_deref().map_err(String::as_str));
        answer.map_err(refused)
    }
}

impl FilterSession for Session {
    fn call(&mut self, call: FilterCall<'_>) -> Result<String, FilterError> {
        match canonical::Arguments::of(call) {
            None => self.answer(call),
            Some(arguments) => self.answer(arguments.of_filter(call.filter)),
        }
    }
}

fn run(
    instances: &mut Vec<Option<Instance>>,
    Offered { plugin, place, .. }: &Offered,
    call: FilterCall<'_>,
) -> Result<Result<String, String>, PluginFailure> {
    if instances.len() <= *place {
        instances.resize_with(place + 1, || None);
    }
    let started = Instant::now();
    let outcome = apply(&mut instances[*place], plugin, call, started);
    plugin.count(Contract::TemplateFilter, started.elapsed(), outcome)
}

/// Asks the instance in `place`, which is made if it is empty and emptied by a failure: a trapped instance can't be
/// entered again, and one that broke its contract is not trusted again. `started` is now, as the caller counts it.
pub(crate) fn apply(
    place: &mut Option<Instance>,
    plugin: &LoadedPlugin,
    call: FilterCall<'_>,
    started: Instant,
) -> Result<Result<String, String>, PluginFailureKind> {
    let limit_bytes = plugin.limits.input_bytes;
    let bytes = arguments(call).map(str::len).sum::<usize>() as u64;
    let outcome = if bytes > limit_bytes {
        Err(PluginFailureKind::InputLimit { limit_bytes, bytes })
    } else {
        match place {
            Some(instance) => {
                instance.store.data_mut().renew(started);
                instance.store.set_epoch_deadline(call::ticks(plugin.limits.timeout));
                instance.ask(call)
            }
            // The first call pays for the instance from its own time.
            None => Instance::new(plugin).and_then(|instance| place.insert(instance).ask(call)),
        }
    };
    if outcome.is_err() {
        *place = None;
    }
    outcome
}

fn arguments(call: FilterCall<'_>) -> impl Iterator<Item = &str> {
    let named = call.named.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    std::iter::once(call.value).chain(call.positional.iter().map(String::as_str)).chain(named)
}

/// Writes what the answer follows from: every part with its length, so that no two calls share a key. Lengths that do
/// not fit are of keys that are never remembered.
fn write_key(key: &mut Vec<u8>, filter: u32, call: FilterCall<'_>) {
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    key.clear();
    key.extend_from_slice(&filter.to_le_bytes());
    key.extend_from_slice(&length(call.positional.len()));
    for part in arguments(call) {
        key.extend_from_slice(&length(part.len()));
        key.extend_from_slice(part.as_bytes());
    }
}

// === impl Instance ===

impl Instance {
    fn new(plugin: &LoadedPlugin) -> Result<Self, PluginFailureKind> {
        let in_flight = plugin.ticker.enter();
        let mut store = plugin.store();
        let indices = plugin.exports.template_filters.as_ref().expect("only plugins with filters are in the index");
        let started = stack::with_room(|| {
            let instance = plugin.pre.instantiate(&mut store)?;
            let guest = indices.load(&mut store, &instance)?;
            Ok((guest.call_configure(&mut store, &plugin.config)?, guest))
        });
        match started {
            Err(error) => Err(classify(&store, &error)),
            Ok((Err(message), _)) => {
                Err(PluginFailureKind::Reported { message: printable(&message, MAX_MESSAGE_BYTES) })
            }
            Ok((Ok(()), guest)) => Ok(Self { store, guest, _in_flight: in_flight }),
        }
    }

    fn ask(&mut self, call: FilterCall<'_>) -> Result<Result<String, String>, PluginFailureKind> {
        let Self { store, guest, .. } = self;
        let answer =
            stack::with_room(|| guest.call_call(&mut *store, call.filter, call.value, call.positional, call.named));
        match answer {
            Err(error) => Err(classify(store, &error)),
            Ok(Ok(json)) if !canonical::is_json(&json) => {
                let message =
                    format!("the filter `{}` answered `{}`, which is not JSON", call.filter, printable(&json, 60));
                Err(PluginFailureKind::Contract { message })
            }
            Ok(Ok(json)) => Ok(Ok(json)),
            Ok(Err(GuestError::Refused(message))) => Ok(Err(printable(&message, MAX_MESSAGE_BYTES))),
            Ok(Err(GuestError::Failed(message))) => {
                Err(PluginFailureKind::Reported { message: printable(&message, MAX_MESSAGE_BYTES) })
            }
        }
    }
}
