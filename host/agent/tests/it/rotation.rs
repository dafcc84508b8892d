//! New certificates while requests go on: none fails, and the new ones are used.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use haptic_wire::{AgentClient, ClientTimeouts};
use rustls::version::TLS13;
use tokio::task::JoinSet;

use crate::{
    authority::{Authority, Issued, Subject},
    common::until,
    service::{RawClient, Service, ask, chain, credentials, identity},
};

/// Clients that ask without a pause: some over kept connections, some over a new one each time.
struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(client: &(impl Fn() -> AgentClient + Clone + Send + Sync + 'static)) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for number in 0..4 {
            let (make, stop, answers) = (client.clone(), stop.clone(), answers.clone());
            clients.spawn(async move {
                let mut failed = Vec::new();
                let mut client = make();
                while !stop.load(Ordering::Relaxed) {
                    match client.serving().await {
                        Ok(_) => {
                            answers.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => failed.push(format!("{error}: {:?}", std::error::Error::source(&error))),
                    }
                    if number % 2 == 0 {
                        client = make();
                    }
                }
                failed
            });
        }
        Self { stop, answers, clients }
    }

    /// Until more requests were answered: what was changed before has met traffic.
    async fn flow(&self) {
        let goal = self.answers.load(Ordering::Relaxed) + 40;
        until("requests are answered", async || self.answers.load(Ordering::Relaxed) >= goal).await;
    }

    async fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        while let Some(client) = self.clients.join_next().await {
            failed.extend(client.unwrap());
        }
        assert!(failed.is_empty(), "{} requests failed: {:#?}", failed.len(), &failed[..failed.len().min(5)]);
    }
}

/// The certificate that a new client is shown.
async fn shown(service: &Service, trusts: &str, controller: &Issued) -> Option<Vec<u8>> {
    let client = RawClient { trusts, shows: Some(controller), version: &TLS13 };
    let mut stream = service.raw(client).await.ok()?;
    // Only a client that the agent takes has an answer.
    ask(&mut stream, "/healthz").await.ok()?.contains("200").then_some(())?;
    Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
}

async fn until_shown(service: &Service, agent: &Issued, trusts: &str, controller: &Issued) {
    let expected = chain(agent)[0].to_vec();
    until("a new client is shown the new certificate", async || {
        shown(service, trusts, controller).await.as_ref() == Some(&expected)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_and_a_new_ca_under_load_fail_no_request() {
    let (old, new) = (Authority::new("old CA").unwrap(), Authority::new("new CA").unwrap());
    let mut service = Service::of(&old).await;
    let mut controller = old.issue(&Subject::controller()).unwrap();
    let identity = identity(&controller, old.pem());
    let (address, shared) = (service.address, identity.clone());
    let patient = ClientTimeouts { read: Duration::from_mins(1), ..ClientTimeouts::default() };
    let load = Load::start(&move || AgentClient::tls_with_timeouts(address, shared.clone(), patient));
    load.flow().await;

    for _ in 0..3 {
        let agent = old.issue(&Subject::agent()).unwrap();
        service.volume.update(&agent, old.pem()).unwrap();
        until_shown(&service, &agent, old.pem(), &controller).await;
        controller = old.issue(&Subject::controller()).unwrap();
        identity.swap(&credentials(&controller, old.pem())).unwrap();
        load.flow().await;
    }

    // Another CA: first both sides trust both, then each gets its certificate, then the old one goes.
    let both = format!("{}{}", old.pem(), new.pem());
    identity.swap(&credentials(&controller, &both)).unwrap();
    let agent = new.issue(&Subject::agent()).unwrap();
    service.volume.update(&agent, &both).unwrap();
    until_shown(&service, &agent, new.pem(), &controller).await;
    load.flow().await;
    let outdated = controller;
    controller = new.issue(&Subject::controller()).unwrap();
    identity.swap(&credentials(&controller, new.pem())).unwrap();
    load.flow().await;
    let agent = new.issue(&Subject::agent()).unwrap();
    service.volume.update(&agent, new.pem()).unwrap();
    until_shown(&service, &agent, new.pem(), &controller).await;
    load.flow().await;

    load.finish().await;
    assert_eq!(shown(&service, new.pem(), &outdated).await, None, "the old CA is not trusted any more");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_goes_on_after_its_certificates_were_replaced() {
    let ca = Authority::new("test CA").unwrap();
    let mut service = Service::of(&ca).await;
    let controller = ca.issue(&Subject::controller()).unwrap();
    let client = RawClient { trusts: ca.pem(), shows: Some(&controller), version: &TLS13 };
    let mut kept = service.raw(client).await.unwrap();
    assert!(ask(&mut kept, "/healthz").await.unwrap().contains("200"));

    let agent = ca.issue(&Subject::agent()).unwrap();
    service.volume.update(&agent, ca.pem()).unwrap();
    until_shown(&service, &agent, ca.pem(), &controller).await;
    assert!(ask(&mut kept, "/healthz").await.unwrap().contains("200"), "the old connection still answers");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_pair_keeps_the_old_one_until_it_is_whole() {
    let ca = Authority::new("test CA").unwrap();
    let mut service = Service::of(&ca).await;
    let controller = ca.issue(&Subject::controller()).unwrap();
    let before = shown(&service, ca.pem(), &controller).await.unwrap();
    let agent = ca.issue(&Subject::agent()).unwrap();
    // The new certificate with the old key, as a writer leaves it between two files; in between, nothing is refused.
    let other = ca.issue(&Subject::agent()).unwrap();
    service.volume.update(&Issued { key: other.key, ..agent.clone() }, ca.pem()).unwrap();
    assert_eq!(shown(&service, ca.pem(), &controller).await, Some(before));
    service.volume.update(&agent, ca.pem()).unwrap();
    until_shown(&service, &agent, ca.pem(), &controller).await;
    service.stop().await;
}
