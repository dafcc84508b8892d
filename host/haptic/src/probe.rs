//! `haptic probe`: asks an HTTP address until it answers. For `helm test`, and wherever a container has no curl.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use axum::http::{Request, Uri, header};
use bytes::Bytes;
use clap::Args;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};

use crate::{cli, exit};

#[derive(Args, Debug)]
pub(crate) struct ProbeOptions {
    /// What to ask, such as `http://haproxy:8080/`
    url: Uri,
    /// The status that it must answer; default: any below 500
    #[arg(long, value_name = "CODE")]
    status: Option<u16>,
    /// The host to ask for, where it is not that of the URL
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// For how many seconds to try
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    within: u64,
}

/// Between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// One try takes no longer.
const TRY: Duration = Duration::from_secs(5);

// === impl ProbeOptions ===

impl ProbeOptions {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let target = self.target()?;
        let deadline = Instant::now() + Duration::from_secs(self.within);
        let mut tries = interval(RETRY);
        tries.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = "nothing was tried".to_owned();
        while timeout_at(deadline, tries.tick()).await.is_ok() {
            match timeout(TRY, self.ask(&target)).await {
                Ok(Ok(status)) if self.accepts(status) => {
                    cli::print(&format!("{} answers {status}\n", self.url));
                    return Ok(ExitCode::SUCCESS);
                }
                Ok(Ok(status)) => last = format!("it answers {status}"),
                Ok(Err(error)) => last = format!("{error:#}"),
                Err(_) => last = format!("no answer within {} s", TRY.as_secs()),
            }
        }
        cli::complain(&format!("error: {} within {} s: {last}", self.url, self.within));
        Ok(ExitCode::from(exit::REFUSED))
    }

    /// Host and port to connect to.
    fn target(&self) -> anyhow::Result<String> {
        if self.url.scheme_str() != Some("http") {
            bail!("`{}` is no http:// URL; give one such as http://127.0.0.1:8080/readyz", self.url);
        }
        let host = self.url.host().with_context(|| format!("`{}` names no host", self.url))?;
        Ok(format!("{host}:{}", self.url.port_u16().unwrap_or(80)))
    }

    async fn ask(&self, target: &str) -> anyhow::Result<u16> {
        let stream = TcpStream::connect(target).await.with_context(|| format!("connecting to {target}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("speaking HTTP")?;
        // Ends with this try.
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path).header(header::HOST, self.host.as_deref().unwrap_or(target));
        let request = request.body(Empty::<Bytes>::new()).context("making the request")?;
        let answer = sender.send_request(request).await.context("asking")?;
        Ok(answer.status().as_u16())
    }

    fn accepts(&self, status: u16) -> bool {
        self.status.map_or(status < 500, |wanted| status == wanted)
    }
}
