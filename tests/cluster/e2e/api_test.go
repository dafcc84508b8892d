package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPodReadsTheAPIAsItsServiceAccount(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: reader}]
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  serviceAccountName: reader
  restartPolicy: Never
  containers:
  - {name: may, image: kubectl, args: [get, pods, -o, name]}
  - {name: may-not, image: kubectl, args: [get, secrets]}
`)
	n.awaitField(15*time.Second, "pod/reader", "{.status.phase}", "Failed")
	if log := n.log("reader", "may"); log != "pod/reader\n" {
		t.Errorf("what it may read: %s", log)
	}
	if log := n.log("reader", "may-not"); !strings.Contains(log, "system:serviceaccount:"+n.name+":reader") {
		t.Errorf("what it may not read: %s", log)
	}
	for resource, want := range map[string]string{"pods": "allow", "secrets": "forbid"} {
		if got := n.audited("reader", "list", resource); got != want {
			t.Errorf("the audit log says %q of listing %s, want %q", got, resource, want)
		}
	}
}

// audited is what the audit log says of a request of a service account, empty where it says nothing.
func (n *namespace) audited(account, verb, resource string) (decision string) {
	n.Helper()
	log, err := os.ReadFile(filepath.Join(n.folder, "logs", "audit.log"))
	if err != nil {
		n.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var event struct {
			Verb        string
			User        struct{ Username string }
			ObjectRef   struct{ Resource string }
			Annotations map[string]string
		}
		if err := json.Unmarshal(line, &event); err != nil {
			n.Fatalf("%v: %s", err, line)
		}
		if event.User.Username == "system:serviceaccount:"+n.name+":"+account && event.Verb == verb && event.ObjectRef.Resource == resource {
			decision = event.Annotations["authorization.k8s.io/decision"]
		}
	}
	return decision
}

func TestClusterGoesOnAfterAnOutageOfTheAPIServer(t *testing.T) {
	n := own(t)
	n.apply(web)
	n.awaitAnswersOf(2)
	t.Cleanup(func() { n.control("start", "apiserver") })
	for _, how := range []string{"TERM", "KILL"} {
		name := n.field("pods", "{.items[0].metadata.name}")
		restarts := "{.status.containerStatuses[0].restartCount}"
		before := n.field("pod/"+name, restarts)
		n.control("stop", "apiserver", how)
		if output := n.try("", "get", "pods"); !strings.Contains(output, "127.0.0.1") {
			t.Fatalf("the API server still answers: %s", output)
		}
		if _, err := n.get("http://web." + n.name + ".svc/"); err != nil {
			t.Errorf("without the API server the Service does not answer: %v", err)
		}
		if err := syscall.Kill(n.pid(name, "web"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// Longer than the delay after which the clients are started afresh.
		time.Sleep(6 * time.Second)
		began := time.Now()
		n.control("start", "apiserver")
		n.eventually(5*time.Second, func() string {
			if n.field("pod/"+name, restarts) == before {
				return "the restart is not in the pod's status"
			}
			return ""
		})
		n.kubectl("scale", "deployment", "web", "--replicas=3")
		n.awaitAnswersOf(3)
		t.Logf("after %s: three pods %s after the start", how, time.Since(began).Round(10*time.Millisecond))
		n.kubectl("scale", "deployment", "web", "--replicas=2")
		n.awaitAnswersOf(2)
	}
}

func TestSecondClusterRunsBesideAndDiesWithItsFirstProcess(t *testing.T) {
	other, err := start(running.program, filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	n := &namespace{T: t, cluster: other, name: "default"}
	n.kubectl("run", "demo", "--image=demo")
	n.awaitField(10*time.Second, "pod/demo", "{.status.phase}", "Running")
	if pid := n.pid("demo", "demo"); syscall.Kill(pid, 0) != nil {
		t.Errorf("process %d does not exist on this machine", pid)
	}
	if err := other.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.command.Wait()
	n.eventually(5*time.Second, func() string { return processesOf(other.folder) })
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || bytes.Contains(mounts, []byte(other.folder)) {
		t.Errorf("mounts are left: %v, %s", err, mounts)
	}
}

// processesOf tells which processes have the folder in their command.
func processesOf(folder string) string {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		if command, err := os.ReadFile(path); err == nil && bytes.Contains(command, []byte(folder)) {
			return fmt.Sprintf("%s is left: %s", path, bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
		}
	}
	return ""
}
