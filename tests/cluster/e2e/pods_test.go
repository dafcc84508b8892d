package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestVolumesFollowTheirObjects(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {greeting: hello}
---
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {tier: front}}
spec:
  securityContext: {runAsUser: 1234, fsGroup: 3456}
  containers:
  - name: reader
    image: shell
    args: ["ls -lnL /all; echo scratch > /empty/file && echo wrote; exec sleep 1000"]
    volumeMounts:
    - {name: settings, mountPath: /usr/local/etc/settings}
    - {name: settings, mountPath: /one, subPath: greeting}
    - {name: all, mountPath: /all}
    - {name: empty, mountPath: /empty}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: empty, emptyDir: {medium: Memory}}
  - name: all
    projected:
      sources:
      - configMap: {name: settings, items: [{key: greeting, path: deep/greeting, mode: 0440}]}
      - secret: {name: later}
      - secret: {name: never, optional: true}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
      - serviceAccountToken: {path: token, audience: haptic}
`)
	n.eventually(5*time.Second, func() string {
		if events := n.try("", "get", "events"); !strings.Contains(events, `secret "later" not found`) {
			return "no event names the missing Secret:\n" + events
		}
		return ""
	})
	n.kubectl("create", "secret", "generic", "later", "--from-literal=password=old")
	n.awaitLog(5*time.Second, "reader", "reader", "wrote")
	for _, line := range strings.Split(n.log("reader", "reader"), "\n") {
		if strings.HasSuffix(line, " token") && !strings.HasPrefix(line, "-rw-r----- 1 1234 3456") {
			t.Errorf("the token is %s", line)
		}
	}
	began := time.Now()
	n.kubectl("patch", "configmap", "settings", "-p", `{"data":{"greeting":"bonjour"}}`)
	n.kubectl("patch", "secret", "later", "-p", `{"stringData":{"password":"new"}}`)
	n.kubectl("label", "pod", "reader", "tier=back", "--overwrite")
	n.eventually(5*time.Second, func() string {
		got := n.try("", "exec", "reader", "--", "sh", "-c", "cat /usr/local/etc/settings/greeting /all/deep/greeting /all/password /one; grep tier /all/labels")
		if got != "bonjourbonjournewhellotier=\"back\"\n" {
			return "the volumes hold " + got
		}
		return ""
	})
	t.Logf("volumes followed within %s", time.Since(began).Round(10*time.Millisecond))
}

func TestInitContainersAndSidecarsKeepTheirOrder(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: ordered}
spec:
  terminationGracePeriodSeconds: 10
  volumes: [{name: log, emptyDir: {}}]
  initContainers:
  - {name: first, image: shell, args: ["sleep 0.3; echo first >> /log/all"], volumeMounts: &m [{name: log, mountPath: /log}]}
  - name: side-a
    image: shell
    restartPolicy: Always
    args: ["trap 'echo end-a >> /log/all; cat /log/all; exit' TERM; sleep 1.2; echo side-a >> /log/all; while :; do sleep 0.1; done"]
    startupProbe: {exec: {command: [grep, -q, side-a, /log/all]}, periodSeconds: 1}
    volumeMounts: *m
  - name: side-b
    image: shell
    restartPolicy: Always
    args: ["trap 'echo end-b >> /log/all; exit' TERM; echo side-b >> /log/all; while :; do sleep 0.1; done"]
    volumeMounts: *m
  - {name: last, image: shell, args: ["sleep 0.5; echo last >> /log/all"], volumeMounts: *m}
  containers:
  - name: main
    image: shell
    args: ["trap 'sleep 0.5; echo end-main >> /log/all; exit' TERM; echo main >> /log/all; while :; do sleep 0.1; done"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 0.5; echo pre-stop >> /log/all"]}}}
    volumeMounts: *m
`)
	n.awaitField(15*time.Second, "pod/ordered", `{.status.conditions[?(@.type=="Ready")].status}`, "True")
	n.eventually(5*time.Second, func() string {
		return n.try("", "exec", "ordered", "-c", "main", "--", "sh", "-c", "grep -qx main /log/all || echo main has not begun")
	})
	n.kubectl("delete", "pod", "ordered")
	want := "first side-a side-b last main pre-stop end-main end-b end-a"
	if got := strings.Join(strings.Fields(n.log("ordered", "side-a")), " "); got != want {
		t.Errorf("the order was %s, want %s", got, want)
	}
}

func TestKilledProcessIsStartedAgainWithBackoff(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: victim}
spec: {containers: [{name: victim, image: shell, args: ["echo I am $$$$; exec sleep 1000"]}]}
`)
	n.awaitField(5*time.Second, "pod/victim", "{.status.phase}", "Running")
	n.awaitLog(time.Second, "victim", "victim", "I am 1")
	state := "{.status.containerStatuses[0]"
	_ = syscall.Kill(n.pid("victim", "victim"), syscall.SIGKILL)
	n.awaitField(5*time.Second, "pod/victim", state+".restartCount}", "1")
	if code := n.field("pod/victim", state+".lastState.terminated.exitCode}"); code != "137" {
		t.Errorf("the exit code is %s, want 137", code)
	}
	n.eventually(20*time.Second, func() string {
		reason := n.field("pod/victim", state+".state.waiting.reason}")
		if reason == "CrashLoopBackOff" {
			return ""
		}
		if pid := n.pidOrZero("victim", "victim"); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return "killed again and again, it never waits: " + reason
	})
	n.awaitField(15*time.Second, "pod/victim", state+".ready}", "true")
	if previous := n.kubectl("logs", "victim", "--previous"); previous != "I am 1\n" {
		t.Errorf("the previous log is %q", previous)
	}
}

func TestLivenessProbeRestartsAndStartupProbeHoldsItBack(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: tired}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: tired
    image: shell
    args: ["sleep 2; touch /tmp/ok; sleep 2; rm /tmp/ok; exec sleep 1000"]
    startupProbe: {exec: {command: [test, -e, /tmp/ok]}, periodSeconds: 1, failureThreshold: 5}
    livenessProbe: {exec: {command: [test, -e, /tmp/ok]}, periodSeconds: 1, failureThreshold: 2}
`)
	n.awaitField(6*time.Second, "pod/tired", "{.status.containerStatuses[0].started}", "true")
	if restarts := n.field("pod/tired", "{.status.containerStatuses[0].restartCount}"); restarts != "0" {
		t.Errorf("restarted %s times before it had started", restarts)
	}
	n.awaitField(8*time.Second, "pod/tired", "{.status.containerStatuses[0].restartCount}", "1")
}

func TestProcessThatDoesNotListenIsKilledAfterItsGrace(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{name: deaf, image: shell, args: ["trap '' TERM; echo deaf; while :; do sleep 0.1; done"]}]
`)
	n.awaitLog(5*time.Second, "deaf", "deaf", "deaf")
	began := time.Now()
	n.kubectl("delete", "pod", "deaf")
	if took := time.Since(began); took < 1500*time.Millisecond || took > 8*time.Second {
		t.Errorf("the pod took %s to end, want about 2 s", took)
	}
}

func TestUnknownImageWaitsAndNamesTheTable(t *testing.T) {
	n := own(t)
	n.kubectl("run", "unknown", "--image=nowhere/thing:1")
	n.awaitField(5*time.Second, "pod/unknown", "{.status.containerStatuses[0].state.waiting.reason}", "ImagePullBackOff")
	message := n.field("pod/unknown", "{.status.containerStatuses[0].state.waiting.message}")
	if !strings.Contains(message, "image table") || !strings.Contains(message, "demo") {
		t.Errorf("the message is %q", message)
	}
	n.kubectl("delete", "pod", "unknown", "--timeout=5s")
}

func TestJobRunsToItsEnd(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 2
  template: {spec: {restartPolicy: Never, containers: [{name: once, image: shell, args: ["echo done"]}]}}
`)
	n.awaitField(10*time.Second, "job/once", `{.status.conditions[?(@.type=="Complete")].status}`, "True")
}

func TestProcessesOfAPodCanBeShared(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: shared}
spec:
  shareProcessNamespace: true
  containers:
  - {name: one, image: shell, args: ["exec sleep 1001"]}
  - {name: two, image: shell, args: ["sleep 0.5; pgrep -f 'sleep 100[1]' && echo seen; exec sleep 1002"]}
`)
	n.awaitLog(5*time.Second, "shared", "two", "seen")
}

func TestSecurityContextIsEnforced(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: confined}
spec:
  securityContext: {runAsUser: 1234, runAsGroup: 2345, runAsNonRoot: true, supplementalGroups: [77], seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: confined
    image: shell
    args: ["id; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status; touch /tmp/x || echo read-only; unshare -U true || echo no-namespaces; exec sleep 1000"]
    securityContext: {capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false}
`)
	n.awaitLog(5*time.Second, "confined", "confined", "no-namespaces")
	log := strings.Join(strings.Fields(n.log("confined", "confined")), " ")
	for _, want := range []string{
		"uid=1234 gid=2345", "77", "CapEff: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2", "read-only",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in %s", want, log)
		}
	}
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: root}
spec: {containers: [{name: root, image: shell, securityContext: {runAsNonRoot: true}}]}
`)
	n.awaitField(5*time.Second, "pod/root", "{.status.containerStatuses[0].state.waiting.reason}", "CreateContainerConfigError")
}

func TestFinishedPodStaysUntilItIsDeleted(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: finished}
spec:
  restartPolicy: Never
  initContainers: [{name: side, image: shell, restartPolicy: Always, args: ["trap 'echo ended; exit' TERM; while :; do sleep 0.1; done"]}]
  containers: [{name: main, image: shell, args: ["sleep 0.5; echo words > /dev/termination-log"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: late}
spec:
  activeDeadlineSeconds: 1
  terminationGracePeriodSeconds: 1
  containers: [{name: late, image: demo}]
---
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec:
  containers: [{name: stuck, image: demo, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, secret: {secretName: never}}]
`)
	n.awaitField(10*time.Second, "pod/finished", "{.status.phase}", "Succeeded")
	if log := n.log("finished", "side"); log != "ended\n" {
		t.Errorf("the sidecar said %q before the pod had succeeded", log)
	}
	if words := n.field("pod/finished", "{.status.containerStatuses[0].state.terminated.message}"); words != "words\n" {
		t.Errorf("its last words are %q", words)
	}
	n.awaitField(10*time.Second, "pod/late", "{.status.reason}", "DeadlineExceeded")
	if phase := n.field("pod/stuck", "{.status.phase}"); phase != "Pending" {
		t.Errorf("the pod without its volume is %s", phase)
	}
	n.kubectl("delete", "pod", "finished", "late", "stuck", "--timeout=5s")
}
