//! What the component is.

use haptic_model::ports::Contract;
use haptic_plugins::{LoadErrorReason, Purity};

use crate::{checks::Context, report::Said};

pub(super) fn loads(ctx: &Context<'_>) -> Said {
    let project = ctx.probe.project;
    let reason = match ctx.probe.load(&project.config) {
        Ok(plugin) => {
            let contracts: Vec<String> = plugin.contracts().iter().map(ToString::to_string).collect();
            return Said::pass(contracts.join(", "));
        }
        Err(error) => error,
    };
    match (&reason.reason, &ctx.loaded) {
        (LoadErrorReason::Config { message }, Ok(_)) => Said::pass(format!(
            "with the config of its cases; it refuses that of the project ({}): {message}",
            if project.config.is_null() { "none" } else { "in plugin.yaml" }
        )),
        (LoadErrorReason::Config { message }, Err(_)) => Said::fail(format!(
            "it refuses its config: {message}; set `config` in plugin.yaml, or in a case, to one that it takes"
        )),
        (reason, _) => Said::fail(reason.to_string()),
    }
}

pub(super) fn imports(ctx: &Context<'_>) -> Said {
    let Ok(inspection) = &ctx.probe.inspection else { return Said::skip("it is no component") };
    if !inspection.refused_imports.is_empty() {
        let names = inspection.refused_imports.join("`, `");
        return Said::fail(format!(
            "it imports `{names}`, which no plugin may; use only `haptic:plugin/{{types,files,logging}}` and plain WASI"
        ));
    }
    match (inspection.pure, ctx.probe.project.purity) {
        (true, _) => Said::pass("it imports haptic:plugin/* alone, so it may be used where pure plugins are demanded"),
        (false, Purity::Wasi) => Said::pass(
            "it imports WASI, of which the host offers nothing that is real; a config that demands pure plugins refuses it",
        ),
        (false, Purity::Pure) => {
            let wasi: Vec<_> = inspection.imports.iter().filter(|name| name.starts_with("wasi:")).collect();
            Said::fail(format!(
                "plugin.yaml says `pure: true`, but it imports {} interfaces of WASI, `{}` first; build it with \
                 `haptic plugin build`, which makes pure components, or leave `pure` out",
                wasi.len(),
                wasi.first().map_or("", |name| name.as_str())
            ))
        }
    }
}

pub(super) fn generation(ctx: &Context<'_>) -> Said {
    let Ok(inspection) = &ctx.probe.inspection else { return Said::skip("it is no component") };
    match &inspection.generation {
        Some(generation) if generation.starts_with("1.") => Said::pass(generation.clone()),
        Some(generation) => {
            Said::fail(format!("it is built for {generation}; build it against wit/haptic-plugin-1.0.0"))
        }
        None => Said::fail("it exports no contract of haptic:plugin; export a world of wit/haptic-plugin-1.0.0"),
    }
}

pub(super) fn cases(ctx: &Context<'_>) -> Said {
    let exported = ctx.probe.contracts();
    let covered: Vec<Contract> =
        ctx.probe.project.cases.iter().filter_map(|case| case.contract(&exported).ok()).collect();
    let bare: Vec<String> =
        exported.iter().filter(|contract| !covered.contains(contract)).map(ToString::to_string).collect();
    if !bare.is_empty() {
        return Said::warn(format!(
            "there is no case for its {}; write `cases/NAME/case.json`: the checks start from cases, and without them \
             they know only plain files",
            bare.join(" and its ")
        ));
    }
    Said::pass(format!("{} cases", ctx.probe.project.cases.len()))
}
