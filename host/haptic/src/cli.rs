//! The command line.

use std::io::Write as _;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    agent::AgentOptions, crds::CrdsOptions, demo_secret::DemoSecret, diff::DiffOptions, echo::EchoBackend,
    explain::ExplainOptions, plugin::PluginCommand, preflight::PreflightOptions, probe::ProbeOptions,
    rbac::RbacOptions, render::RenderOptions, run::RunOptions, validate::ValidateOptions,
    webhook_configuration::WebhookConfigurationOptions,
};

/// Turns Kubernetes resources into HAProxy configuration, proves it, and brings it to HAProxy without a reload
/// wherever HAProxy can take the change at run time.
#[derive(Parser, Debug)]
#[command(
    name = "haptic",
    version,
    disable_help_subcommand = true,
    after_help = "Exit codes: 0 = done, 1 = a check said no (the output says why), 2 = it could not run.\n\
                  HAPTIC_LOG filters what is logged, e.g. HAPTIC_LOG=debug. HAPTIC_HAPROXY_DIR names a folder of \
                  HAProxy builds called haproxy-VERSION, used when none is in PATH."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Serve manifests through a local HAProxy, and follow their changes
    Run(Box<RunOptions>),
    /// The service beside HAProxy that owns its files, process and sockets
    Agent(AgentOptions),
    /// Check manifests as the controller would: load gate, validation tests, a strict render
    Validate(ValidateOptions),
    /// Print what manifests render to
    Render(RenderOptions),
    /// Say what a change would do: verdict, reasons, runtime commands ("will this reload?")
    Diff(DiffOptions),
    /// Say who made a line of the configuration, or where a request goes
    Explain(ExplainOptions),
    /// Say what a configuration would make of the objects that are there, before it is installed
    Preflight(PreflightOptions),
    /// List what templates can call
    Functions,
    /// Write the CustomResourceDefinitions
    Crds(CrdsOptions),
    /// Write the ServiceAccount and Roles that a controller with this configuration needs, and no more
    Rbac(RbacOptions),
    /// Write the ValidatingWebhookConfiguration that has an API server ask a controller with this configuration
    WebhookConfiguration(WebhookConfigurationOptions),
    /// Look at Wasm plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Ask an HTTP address until it answers
    Probe(ProbeOptions),
    /// Backends for demonstrations: each answers 200 with its name
    Echo(EchoOptions),
    /// Print a self-signed TLS Secret for demonstrations
    DemoSecret(DemoSecret),
    /// Print what a shell needs to complete commands and options, e.g. `source <(haptic completions bash)`
    Completions {
        /// For this shell
        shell: Shell,
    },
    /// Compile a plugin for the process that started this one: the module on standard input, its image on standard output
    #[command(hide = true)]
    CompilePlugin,
    /// Start one check of a configuration for the process that started this one
    #[command(hide = true)]
    CheckJail {
        /// What to check and how, as that process writes it
        order: String,
    },
    /// Print the version
    Version,
}

#[derive(Args, Debug)]
pub(crate) struct EchoOptions {
    /// What to serve, as ADDRESS:PORT=NAME; may be given several times
    #[arg(required = true, value_name = "ADDRESS:PORT=NAME")]
    pub(crate) backends: Vec<EchoBackend>,
}

/// Writes to standard output; a closed pipe is the reader's choice and no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
