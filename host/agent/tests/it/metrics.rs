//! What an agent did is counted, and told in the format of OpenMetrics.

use haptic_model::{FileKind, Op};
use haptic_wire::ApplyMode;

use crate::common::{Pod, Set, backend, echo};

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_reloads_operations_refusals_and_rollbacks_are_counted() {
    let mut pod = Pod::new("3.4").await;
    let before = pod.metrics();
    has(&before, "haptic_agent_haproxy_up 0");
    has(&before, "haptic_agent_reloads_total{result=\"refused\"} 0");
    has(&before, "haptic_agent_limit{name=\"files\"} 4096");

    let set = Set::new(&pod, &backend("be_one", &[("s1", echo("one").await)]), "one.test be_one\n");
    assert!(pod.reload(&set).await.ok);
    let weigh = |server: &str| Op::ServerSetWeight { backend: "be_one".into(), server: server.into(), weight: 7 };
    let one = set.with("note.txt", FileKind::General, "one");
    assert!(pod.run(&one, vec![weigh("s1")]).await.ok);
    // HAProxy knows no such server, so the whole set is loaded instead.
    let two = set.with("note.txt", FileKind::General, "two");
    assert!(pod.run(&two, vec![weigh("nobody")]).await.ok);
    let broken = format!("{}    bogus word\n", set.text("haproxy.cfg"));
    let refused = pod.reload(&set.with("haproxy.cfg", FileKind::Config, broken)).await;
    assert!(refused.rolled_back, "{refused:?}");
    let (mut stale, parts) = pod.manifest(&one, ApplyMode::Auto, Vec::new()).await;
    stale.token.leader_epoch = 0;
    assert!(pod.client().apply(&stale, &parts).await.is_err());
    let (mut shapeless, parts) = pod.manifest(&one, ApplyMode::Auto, Vec::new()).await;
    shapeless.files.retain(|file| file.path.as_str() != "haproxy.cfg");
    assert!(pod.client().apply(&shapeless, &parts).await.is_err());

    let text = pod.metrics();
    for line in [
        "haptic_agent_haproxy_up 1",
        "haptic_agent_epoch 1",
        "haptic_agent_queue_depth 0",
        "haptic_agent_files 5",
        "haptic_agent_starts_total{result=\"loaded\"} 1",
        "haptic_agent_reloads_total{result=\"loaded\"} 1",
        "haptic_agent_reloads_total{result=\"refused\"} 1",
        "haptic_agent_rollbacks_total 1",
        "haptic_agent_runtime_ops_total{op=\"server_set_weight\"} 1",
        "haptic_agent_op_errors_total{kind=\"refused\"} 1",
        "haptic_agent_apply_total{mode=\"runtime\"} 1",
        "haptic_agent_apply_total{mode=\"reload\"} 2",
        "haptic_agent_apply_total{mode=\"rejected\"} 1",
        "haptic_agent_apply_rejected_total{stage=\"load\"} 1",
        "haptic_agent_apply_rejected_total{stage=\"fence\"} 1",
        "haptic_agent_apply_rejected_total{stage=\"shape\"} 1",
        "haptic_agent_apply_ops_count 6",
        "haptic_agent_invariant_violations_total{name=\"disk_is_the_record\"} 0",
    ] {
        has(&text, line);
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    // Somebody else writes into the set: it is seen when the agent is asked to look.
    std::fs::write(pod.base().join("note.txt"), "three").unwrap();
    pod.client().verified_state().await.unwrap();
    has(&pod.metrics(), "haptic_agent_invariant_violations_total{name=\"disk_is_the_record\"} 1");
}
