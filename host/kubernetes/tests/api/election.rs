//! Candidates for one Lease of a real server, as many tasks at the same time.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use haptic_kubernetes::{
    Api, Candidate, Election, ElectionClock, ElectionSettings, Ended, Ending, FENCING_EPOCH, Jitter, Leadership, Limits,
};
use haptic_store::RawObject;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    cluster::{Room, settings},
    fault_proxy::{Fault, FaultProxy},
    followed::{BOUND, Followed, spec, wanted},
};

struct Running {
    identity: &'static str,
    candidate: Candidate,
    task: JoinHandle<Ended>,
}

const RETRY_PERIOD: Duration = Duration::from_millis(400);

fn stand(api: Api, room: &Room, identity: &'static str) -> Running {
    let settings = ElectionSettings {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: RETRY_PERIOD,
        ..ElectionSettings::new(&*room.namespace, "haptic", identity)
    };
    let (election, candidate) = Election::new(api, settings, ElectionClock::new(SystemTime::now), Jitter::random());
    Running { identity, candidate, task: tokio::spawn(election.run()) }
}

impl Running {
    /// Waits until it leads in a higher epoch.
    async fn leads_after(&self, epoch: u64) -> Result<u64> {
        let higher = |leadership: &Leadership| matches!(leadership, Leadership::Leader { epoch: own } if *own > epoch);
        match self.becomes(higher).await? {
            Leadership::Leader { epoch } => Ok(epoch),
            Leadership::Follower { .. } => unreachable!("it was waited for"),
        }
    }

    async fn follows(&self, holder: Option<&str>) -> Result<()> {
        let expected = Leadership::Follower { holder: holder.map(Arc::from) };
        self.becomes(|leadership| *leadership == expected).await.map(|_| ())
    }

    async fn becomes(&self, condition: impl FnMut(&Leadership) -> bool) -> Result<Leadership> {
        let mut leadership = self.candidate.leadership();
        let found = timeout(BOUND, leadership.wait_for(condition)).await;
        let now = self.candidate.leadership().borrow().clone();
        Ok(found.with_context(|| format!("`{}` stays {now:?}", self.identity))??.clone())
    }

    fn epoch(&self) -> Option<u64> {
        match *self.candidate.leadership().borrow() {
            Leadership::Leader { epoch } => Some(epoch),
            Leadership::Follower { .. } => None,
        }
    }

    async fn ends(self, ending: Ending) -> Result<()> {
        self.candidate.end(ending);
        ensure!(timeout(BOUND, self.task).await.context("it does not end")?? == Ended::Told(ending));
        Ok(())
    }
}

/// The first of them that leads in a higher epoch.
async fn next_leader(candidates: &[Running], epoch: u64) -> Result<(usize, u64)> {
    let leads = async {
        loop {
            let leading = candidates.iter().position(|running| running.epoch().is_some_and(|own| own > epoch));
            if let Some(index) = leading {
                return index;
            }
            tokio::task::yield_now().await;
        }
    };
    let index = timeout(BOUND, leads).await.context("nobody leads")?;
    Ok((index, candidates[index].leads_after(epoch).await?))
}

fn path(room: &Room) -> String {
    format!("{}/haptic", room.path("apis/coordination.k8s.io/v1", "leases"))
}

async fn lease(room: &Room) -> Result<(Option<String>, u64, u64)> {
    let lease = room.send(Method::GET, &path(room), &Value::Null).await?;
    read(&lease)
}

/// Holder, epoch and transitions.
fn read(lease: &Value) -> Result<(Option<String>, u64, u64)> {
    let epoch = lease["metadata"]["annotations"][FENCING_EPOCH].as_str().context("it has an epoch")?;
    let holder = lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty());
    let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
    Ok((holder.map(str::to_owned), epoch.parse()?, transitions))
}

/// Every state of the Lease from now on.
struct History {
    states: Arc<Mutex<Vec<Arc<RawObject>>>>,
    task: JoinHandle<()>,
}

impl History {
    async fn start(room: &Room) -> Result<Self> {
        let leases = wanted(&spec("coordination.k8s.io/v1", "leases", &room.namespace));
        let mut followed = Followed::synced(room.api(), vec![leases], settings()).await?;
        let states = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&states);
        let task = tokio::spawn(async move {
            while let Ok(update) = followed.source.next().await {
                for (change, _) in update.changes {
                    if let haptic_store::RawChange::Upsert(object) = change {
                        recorded.lock().push(object);
                    }
                }
            }
        });
        Ok(Self { states, task })
    }

    /// The states so far, up to the one with this epoch at least.
    async fn until(&self, epoch: u64) -> Result<Vec<(Option<String>, u64, u64)>> {
        let came = async {
            loop {
                let states: Vec<_> = self.states.lock().iter().map(|object| read(&object.value())).collect();
                let states: Vec<_> = states.into_iter().collect::<Result<_>>()?;
                if states.iter().any(|(_, own, _)| *own >= epoch) {
                    return Ok(states);
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(BOUND, came).await.context("the Lease never had this epoch")?
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_leads_and_after_a_release_another_in_a_higher_epoch() -> Result<()> {
    let room = Room::new().await?;
    let mut candidates: Vec<Running> =
        ["a", "b", "c", "d"].into_iter().map(|identity| stand(room.api(), &room, identity)).collect();
    let (mut epoch, mut transitions) = (0, None);
    while !candidates.is_empty() {
        let (index, own) = next_leader(&candidates, epoch).await?;
        let leader = candidates.remove(index);
        for other in &candidates {
            other.follows(Some(leader.identity)).await?;
        }
        let (holder, recorded, changes) = lease(&room).await?;
        assert_eq!((holder.as_deref(), recorded), (Some(leader.identity), own), "recorded before it is told");
        assert!(own > epoch && transitions.is_none_or(|before| changes > before));
        (epoch, transitions) = (own, Some(changes));
        leader.ends(Ending::Release).await?;
    }
    let (holder, recorded, _) = lease(&room).await?;
    assert_eq!((holder, recorded), (None, epoch), "what was released keeps its epoch");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_of_the_same_identity_takes_over_with_no_vacancy() -> Result<()> {
    let room = Room::new().await?;
    let history = History::start(&room).await?;
    let mut serving = stand(room.api(), &room, "a");
    let mut epoch = serving.leads_after(0).await?;
    let other = stand(room.api(), &room, "b");
    other.follows(Some("a")).await?;
    for _ in 0..5 {
        let successor = stand(room.api(), &room, "a");
        let next = successor.leads_after(0).await?;
        assert_eq!(next, epoch + 1);
        assert_eq!(timeout(BOUND, serving.task).await??, Ended::Superseded);
        (serving, epoch) = (successor, next);
    }
    // One that is told to keep the Lease leaves it to the next.
    serving.ends(Ending::Keep).await?;
    let successor = stand(room.api(), &room, "a");
    let epoch = successor.leads_after(epoch).await?;
    let states = history.until(epoch).await?;
    assert!(states.iter().all(|(holder, ..)| holder.as_deref() == Some("a")), "{states:?}");
    assert!(states.iter().all(|(.., transitions)| *transitions == 0), "it never changed hands: {states:?}");
    assert!(other.epoch().is_none());
    successor.ends(Ending::Release).await?;
    assert!(other.leads_after(epoch).await? > epoch);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_deleted_is_made_again_by_its_holder_in_its_epoch() -> Result<()> {
    let room = Room::new().await?;
    let leader = stand(room.api(), &room, "a");
    let epoch = leader.leads_after(0).await?;
    let other = stand(room.api(), &room, "b");
    other.follows(Some("a")).await?;
    room.delete(&path(&room)).await?;
    let made_again = async { while lease(&room).await.is_err() {} };
    timeout(BOUND, made_again).await.context("nobody made it again")?;
    let (holder, recorded, _) = lease(&room).await?;
    assert_eq!((holder.as_deref(), recorded), (Some("a"), epoch));
    assert_eq!(leader.epoch(), Some(epoch), "its term goes on");
    leader.ends(Ending::Release).await?;
    assert!(other.leads_after(0).await? > epoch);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_was_read_is_not_taken_again_after_the_lease_was_deleted() -> Result<()> {
    let room = Room::new().await?;
    // Of one who is cut off, and so does not make it again, but may still reach agents.
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "haptic", "annotations": { FENCING_EPOCH: "7" } },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 3600 },
    });
    room.send(Method::POST, &room.path("apis/coordination.k8s.io/v1", "leases"), &held).await?;
    let other = stand(room.api(), &room, "b");
    other.follows(Some("a")).await?;
    room.delete(&path(&room)).await?;
    assert_eq!(other.leads_after(0).await?, 8);
    other.ends(Ending::Release).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_is_not_there_is_told() -> Result<()> {
    let room = Room::new().await?;
    let settings = ElectionSettings::new("no such namespace", "haptic", "a");
    let clock = ElectionClock::new(SystemTime::now);
    let (election, candidate) = Election::new(room.api(), settings, clock, Jitter::random());
    let running = tokio::spawn(election.run());
    let mut problem = candidate.problem();
    timeout(BOUND, problem.wait_for(Option::is_some)).await.context("nothing is told")??;
    candidate.end(Ending::Release);
    ensure!(timeout(BOUND, running).await?? == Ended::Told(Ending::Release));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_agents_have_seen_is_never_too_high() -> Result<()> {
    let room = Room::new().await?;
    let settings = ElectionSettings::new(&*room.namespace, "haptic", "a");
    let clock = ElectionClock::new(SystemTime::now);
    let (election, candidate) = Election::new(room.api(), settings, clock, Jitter::random());
    candidate.saw(41);
    candidate.saw(7);
    let running = Running { identity: "a", candidate, task: tokio::spawn(election.run()) };
    assert_eq!(running.leads_after(0).await?, 42);
    // The Lease is new, the agents are not: they tell what they refuse.
    running.candidate.saw(41);
    running.candidate.saw(99);
    assert_eq!(running.leads_after(42).await?, 100);
    assert_eq!(lease(&room).await?, (Some("a".to_owned()), 100, 0));
    running.candidate.saw(100);
    assert_eq!(running.leads_after(100).await?, 101);
    running.ends(Ending::Release).await?;
    let next = stand(room.api(), &room, "b");
    assert_eq!(next.leads_after(0).await?, 102, "whoever is next reads it in the Lease");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_cannot_renew_is_told_before_another_one_leads() -> Result<()> {
    let faults: [fn() -> Fault; 3] =
        [|| Fault::Silence, || Fault::Broken, || Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, None)];
    for fault in faults {
        let room = Room::new().await?;
        let proxy = FaultProxy::start(room.client.clone()).await?;
        let cut_off = stand(proxy.api(Limits::default()).await?, &room, "a");
        let epoch = cut_off.leads_after(0).await?;
        let other = stand(room.api(), &room, "b");
        other.follows(Some("a")).await?;
        let mut leadership = cut_off.candidate.leadership();
        leadership.mark_unchanged();
        proxy.rule(move |_| Some(fault()));
        proxy.cut();
        let other_leads = other.leads_after(epoch);
        let told = async {
            leadership.changed().await?;
            anyhow::Ok(leadership.borrow().clone())
        };
        tokio::pin!(other_leads);
        tokio::select! {
            biased;
            told = told => assert!(matches!(told?, Leadership::Follower { .. })),
            _ = &mut other_leads => panic!("two lead"),
        }
        assert!(cut_off.candidate.problem().borrow().is_some());
        other_leads.await?;
        proxy.heal();
        cut_off.follows(Some("b")).await?;
        cut_off.candidate.problem().wait_for(Option::is_none).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_killed_is_followed_when_its_lease_expires() -> Result<()> {
    let room = Room::new().await?;
    let killed = stand(room.api(), &room, "a");
    let epoch = killed.leads_after(0).await?;
    killed.task.abort();
    let other = stand(room.api(), &room, "b");
    other.follows(Some("a")).await?;
    assert_eq!(other.leads_after(epoch).await?, epoch + 1);
    assert_eq!(lease(&room).await?, (Some("b".to_owned()), epoch + 1, 1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_ends_at_once_is_opened_again_after_a_pause() -> Result<()> {
    let room = Room::new().await?;
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "haptic" },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 3600 },
    });
    room.send(Method::POST, &room.path("apis/coordination.k8s.io/v1", "leases"), &held).await?;
    let proxy = FaultProxy::start(room.client.clone()).await?;
    proxy.rule(|what| what.contains("watch=true").then(|| Fault::Answer(axum::body::Bytes::new())));
    let follower = stand(proxy.api(Limits::default()).await?, &room, "b");
    let watches = async {
        loop {
            let watches = proxy.seen(&["watch=true"]);
            if watches.len() >= 4 {
                return watches;
            }
            tokio::task::yield_now().await;
        }
    };
    let watches = timeout(BOUND, watches).await.context("it is not watched again")?;
    for pair in watches.windows(2) {
        assert!(pair[1].at - pair[0].at >= RETRY_PERIOD, "{:?}", pair[1].at - pair[0].at);
    }
    // It says what happens all the same.
    let other = json!({ "spec": { "holderIdentity": "c" } });
    room.send(Method::PATCH, &path(&room), &other).await?;
    follower.follows(Some("c")).await?;
    follower.ends(Ending::Release).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_into_the_lease_does_no_harm_unless_it_is_another_holder() -> Result<()> {
    let room = Room::new().await?;
    let leader = stand(room.api(), &room, "a");
    let epoch = leader.leads_after(0).await?;
    for round in 0..5 {
        let patch = json!({ "metadata": { "annotations": { FENCING_EPOCH: null, "round": round.to_string() } } });
        room.send(Method::PATCH, &path(&room), &patch).await?;
        leader.candidate.saw(epoch + round);
        assert_eq!(leader.leads_after(epoch + round).await?, epoch + round + 1);
        let (_, recorded, _) = lease(&room).await?;
        assert_eq!(recorded, epoch + round + 1);
    }
    let patch = json!({ "spec": { "holderIdentity": "thief" } });
    room.send(Method::PATCH, &path(&room), &patch).await?;
    leader.follows(Some("thief")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permissions_are_told_and_waited_for() -> Result<()> {
    let room = Room::new().await?;
    let proxy = FaultProxy::start(room.client.clone()).await?;
    proxy.rule(|_| Some(Fault::Status(StatusCode::FORBIDDEN, None)));
    let running = stand(proxy.api(Limits::default()).await?, &room, "a");
    let mut problem = running.candidate.problem();
    let told = timeout(BOUND, problem.wait_for(Option::is_some)).await??.clone();
    assert_eq!(told.context("it is told")?.to_string(), "the API server refused the request: 403: a fault");
    proxy.heal();
    running.leads_after(0).await?;
    assert!(running.candidate.problem().borrow().is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_rise_and_belong_to_one_whatever_breaks() -> Result<()> {
    let room = Room::new().await?;
    let history = History::start(&room).await?;
    let mut proxies = Vec::new();
    let mut candidates = Vec::new();
    for identity in ["a", "b", "c"] {
        let proxy = FaultProxy::start(room.client.clone()).await?;
        candidates.push(stand(proxy.api(Limits::default()).await?, &room, identity));
        proxies.push(proxy);
    }
    let mut epoch = 0;
    for round in 0..6 {
        let (index, next) = next_leader(&candidates, epoch).await?;
        assert!(next > epoch);
        epoch = next;
        let mut count = 0;
        proxies[index].rule(move |what| {
            count += 1;
            match round % 3 {
                // Writes have an effect, but their answers are lost at first.
                0 => (what.starts_with("PUT") && count <= 4).then_some(Fault::CutAfter(0)),
                1 => Some(Fault::Broken),
                _ => (count % 2 == 0 || what.starts_with("PUT")).then_some(Fault::Silence),
            }
        });
        proxies[index].cut();
        if round % 3 == 0 {
            // Who loses only answers finds its own writes and goes on leading.
            candidates[index].candidate.saw(epoch);
            epoch += 1;
            history.until(epoch).await?;
            candidates[index].leads_after(epoch - 1).await?;
            proxies[index].rule(|_| Some(Fault::Broken));
            proxies[index].cut();
        }
        candidates[index].becomes(|leadership| matches!(leadership, Leadership::Follower { .. })).await?;
        next_leader(&candidates, epoch).await?;
        proxies[index].heal();
    }
    let mut holders: BTreeMap<u64, String> = BTreeMap::new();
    let mut highest = 0;
    for (holder, epoch, _) in history.until(epoch).await? {
        assert!(epoch >= highest, "an epoch never falls");
        highest = epoch;
        let holder = holder.context("nobody released it")?;
        assert_eq!(holders.entry(epoch).or_insert_with(|| holder.clone()), &holder, "an epoch has one holder");
    }
    Ok(())
}
