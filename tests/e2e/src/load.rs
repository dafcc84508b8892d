use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, anyhow};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{
    Answer, Connection, get,
    http::{Persistence, request_text},
};

/// 40 clients that keep their connection and 20 that open one for each request: 480 requests a second when none is
/// slow, so that the 300 that are promised to the tests leave room for a busy machine.
const KEEP_ALIVE: (u32, Duration) = (40, Duration::from_millis(100));
const SINGLE: (u32, Duration) = (20, Duration::from_millis(250));
const PROMISED_RATE: f64 = 300.0;
const SAMPLES: usize = 20;

/// What is asked, and who may answer.
#[derive(Clone, Debug)]
pub struct Target {
    pub host: String,
    /// A right answer is a 200 from a backend or pod whose name begins with this.
    pub served_by: String,
}

/// Steady traffic. Any reset, time-out or answer that is not the right 200 is a failed request.
pub struct Load {
    stop: Arc<AtomicBool>,
    good: Arc<AtomicUsize>,
    clients: JoinSet<LoadReport>,
    started: Instant,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub struct LoadReport {
    pub requests: u64,
    pub failed: u64,
    /// The first failures, for a person.
    pub samples: Vec<String>,
    pub served_by: BTreeMap<String, u64>,
    pub elapsed: Duration,
}

// === impl Load ===

impl Load {
    pub fn start(address: SocketAddr, targets: &[Target]) -> Self {
        let targets: Arc<[Target]> = targets.into();
        let stop = Arc::new(AtomicBool::new(false));
        let good = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let mut clients = JoinSet::new();
        for (kind, (count, period)) in [(Persistence::KeepAlive, KEEP_ALIVE), (Persistence::Close, SINGLE)] {
            let keep_alive = matches!(kind, Persistence::KeepAlive);
            for number in 0..count {
                let client = Client {
                    address,
                    targets: targets.clone(),
                    stop: stop.clone(),
                    good: good.clone(),
                    keep_alive,
                    connection: None,
                };
                // Spread over the period, so that the load is steady.
                clients.spawn(client.run(started + period * number / count, period));
            }
        }
        Self { stop, good, clients, started }
    }

    /// Waits until `count` more requests were answered well: the traffic that a change has to survive.
    pub async fn flow(&self, count: usize) {
        let goal = self.good.load(Ordering::Relaxed) + count;
        crate::eventually(&format!("{count} more good answers under load"), async || {
            (self.good.load(Ordering::Relaxed) >= goal).then_some(())
        })
        .await;
    }

    pub async fn finish(mut self) -> LoadReport {
        let elapsed = self.started.elapsed();
        self.stop.store(true, Ordering::Relaxed);
        let mut total = LoadReport { elapsed, ..LoadReport::default() };
        while let Some(report) = self.clients.join_next().await {
            total.add(report.expect("a client of the load does not panic"));
        }
        total
    }
}

// === impl LoadReport ===

impl LoadReport {
    /// Panics unless every request of a real load was answered well.
    pub fn assert_clean(&self) {
        assert_eq!(self.failed, 0, "{} of {} requests failed: {:#?}", self.failed, self.requests, self.samples);
        #[allow(clippy::cast_precision_loss, reason = "a count of requests is far below 2^52")]
        let rate = self.requests as f64 / self.elapsed.as_secs_f64();
        assert!(rate >= PROMISED_RATE, "only {rate:.0} requests a second: that is no load of {PROMISED_RATE}");
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.samples.extend(other.samples);
        self.samples.truncate(SAMPLES);
        for (name, count) in other.served_by {
            *self.served_by.entry(name).or_default() += count;
        }
    }
}

struct Client {
    address: SocketAddr,
    targets: Arc<[Target]>,
    stop: Arc<AtomicBool>,
    good: Arc<AtomicUsize>,
    keep_alive: bool,
    connection: Option<Connection>,
}

// === impl Client ===

impl Client {
    async fn run(mut self, begin: Instant, period: Duration) -> LoadReport {
        let mut report = LoadReport::default();
        let mut ticks = interval_at(begin, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let targets = self.targets.clone();
        for target in targets.iter().cycle() {
            ticks.tick().await;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let at = begin.elapsed();
            report.requests += 1;
            match self.ask(target).await {
                Ok(name) => {
                    self.good.fetch_add(1, Ordering::Relaxed);
                    *report.served_by.entry(name).or_default() += 1;
                }
                Err(error) => {
                    report.failed += 1;
                    if report.samples.len() < SAMPLES {
                        let kind = if self.keep_alive { "keep-alive" } else { "single" };
                        report.samples.push(format!("{at:?} {kind} {}: {error:#}", target.host));
                    }
                }
            }
        }
        report
    }

    async fn ask(&mut self, target: &Target) -> Result<String> {
        let answer = if self.keep_alive {
            self.ask_again(&target.host).await?
        } else {
            get(self.address, &target.host, "/").await?
        };
        let name = answer.served_by().map(str::to_owned).or_else(|| answer.pod());
        name.filter(|name| name.starts_with(&target.served_by))
            .ok_or_else(|| anyhow!("wrong answer: {} {:?}", answer.status, answer.body))
    }

    async fn ask_again(&mut self, host: &str) -> Result<Answer> {
        let mut connection = match self.connection.take().filter(|open| !open.closed_while_idle()) {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let answer = connection.request(&request_text(host, "/", Persistence::KeepAlive)).await?;
        if !answer.wants_close() {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}
