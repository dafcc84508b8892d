//! Loading: compiled once, then taken from the cache and proved.

use std::{fs, time::Instant};

use anyhow::{Result, ensure};
use haptic_plugins::{PluginHost, PluginSettings};

use crate::{
    Subject,
    plugins::{modules, name},
    stats::{self, Samples},
};

const LOADS: usize = 20;

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let cache = tempfile::tempdir()?;
    let cache = cache.path();
    let settings = PluginSettings::default();
    for module in modules(subject)? {
        let (name, bytes) = (name(&module), fs::read(&module)?);
        let loaded = PluginHost::new(Some(cache.to_owned()))?.load(&name, &bytes, None, &settings)?;
        ensure!(!loaded.from_cache(), "`{name}` is compiled first");
        let compiled = stats::shown(loaded.load_time());
        let mut samples = Samples::default();
        for _ in 0..LOADS {
            // A new host has nothing in memory, so the image comes from the cache and is verified.
            let host = PluginHost::new(Some(cache.to_owned()))?;
            let began = Instant::now();
            let loaded = host.load(&name, &bytes, None, &settings)?;
            samples.push(began.elapsed());
            ensure!(loaded.from_cache(), "the compiled cache was used");
        }
        let size = bytes.len() / 1000;
        samples.print(&format!("load {name} ({size} kB, compiled in {compiled}) from the cache"), "4 ms");
    }
    Ok(())
}
