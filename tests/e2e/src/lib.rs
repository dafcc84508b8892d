//! The harness of the end-to-end tests: the real `haptic` binary on a copy of the example shop, a real HAProxy in
//! front of backends that live in the test, and clients that count every wrong answer. [`cluster`] is the same for
//! controllers in a real Kubernetes.
//!
//! What: [`Shop`] (files, addresses, backends), [`Haptic`] (the process and what it wrote), [`Load`] (steady traffic),
//! [`get`] and [`tls::get`] (one request). What not: no assertion about haptic; those are in `tests/`. Nothing here
//! links a crate of haptic: the contract is the command line, the files and the traffic.
//!
//! ```text
//! test ──edits──► Shop files ──watched by──► haptic ──runs──► HAProxy ──► echo backends (in the test)
//!   └──────────────── requests, Load ──────────────────────────┘
//! ```

pub mod artifacts;
pub mod cluster;
pub mod tls;

mod authority;
mod browser;
mod echo;
mod fault;
mod haproxy;
mod http;
mod load;
mod network;
mod process;
mod registry;
mod scrape;
mod secret;
mod shop;
mod sink;
mod wait;

pub use authority::{Authority, Issued, SecretVolume, Subject, Validity};
pub use browser::{Browser, ColorScheme, Scripts};
pub use echo::Echo;
pub use fault::{STEPS, Victim};
pub use haproxy::{HaproxyBuild, ProcessTable, builds};
pub use http::{Answer, Connection, get};
pub use load::{Load, LoadReport, Target};
pub use network::Network;
pub use process::{Haptic, Run, binary, is_alive, stop_processes_of};
pub use registry::{Cosign, Doors, PASSWORD, Registry, RegistryFolder, SignatureFormat, USER, docker_config};
pub use scrape::{Metric, Sample, Scrape};
pub use secret::Certificate;
pub use shop::{CONFIG, SLICES, Shop, ingress};
pub use sink::{OtlpSink, Received, ReceivedSpan};
pub use wait::{eventually, exclusive, within};

/// Makes one test per HAProxy version out of `async fn scenario(HaproxyBuild) -> anyhow::Result<()>`.
#[macro_export]
macro_rules! on_haproxy {
    ($scenario:ident: $($test:ident = $version:literal),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() -> anyhow::Result<()> {
            $scenario($crate::builds(&[$version]).remove(0)).await
        }
    )+};
}
