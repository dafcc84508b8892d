// Package e2e starts a real cluster and uses it as the tests of haptic do. It needs root; where a cluster cannot run,
// it fails.
package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running is the cluster that most tests share.
var running *cluster

// cluster is one that a test started.
type cluster struct {
	folder  string
	program string
	command *exec.Cmd
	Proxy   string `json:"proxy"`
	Config  string `json:"kubeconfig"`
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		work, err := os.MkdirTemp("", "haptic-cluster-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(work)
		program, err := build(work)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if running, err = start(program, filepath.Join(work, "cluster")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			keepLogs(filepath.Join(work, "cluster"))
			return 1
		}
		code := m.Run()
		if code != 0 {
			keepLogs(running.folder)
		}
		running.end()
		return code
	}())
}

// keepLogs copies them to where they outlive the test.
func keepLogs(folder string) {
	keep := filepath.Join(os.TempDir(), "haptic-cluster-failed")
	_ = os.RemoveAll(keep)
	_ = os.CopyFS(keep, os.DirFS(filepath.Join(folder, "logs")))
	fmt.Fprintln(os.Stderr, "the logs of the cluster are in "+keep)
}

// build builds the program as it is now, or takes the one that HAPTIC_CLUSTER names.
func build(work string) (string, error) {
	if program := os.Getenv("HAPTIC_CLUSTER"); program != "" {
		return program, nil
	}
	for name, source := range map[string]string{"haptic-pod": "./cmd/haptic-pod", "haptic-cluster": "."} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(work, name), source)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if output, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return filepath.Join(work, "haptic-cluster"), nil
}

func start(program, folder string) (*cluster, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	images := filepath.Join(folder, "images.json")
	table := fmt.Sprintf(`{
		"shell": {"entrypoint": ["/bin/sh", "-c"]},
		"kubectl": {"entrypoint": ["/usr/local/bin/haptic-cluster", "kubectl"], "binds": {"/usr/local/bin/haptic-cluster": %q}, "user": 65532}
	}`, program)
	if err := os.WriteFile(images, []byte(table), 0o644); err != nil {
		return nil, err
	}
	c := &cluster{folder: folder, program: program, command: exec.Command(program, "up", "--dir", folder, "--images", images, "--nodes", "2")}
	c.command.Stderr = os.Stderr
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the cluster did not start: %w", c.command.Wait())
	}
	fmt.Fprintf(os.Stderr, "ready after %s\n", time.Since(began).Round(10*time.Millisecond))
	return c, json.Unmarshal(line, c)
}

func (c *cluster) end() {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	_ = c.command.Wait()
}

// namespace is a namespace of the shared cluster that one test has for itself.
type namespace struct {
	*testing.T
	*cluster
	name string
}

// own makes a namespace that is named after the test.
func own(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{T: t, cluster: running, name: strings.ToLower(strings.TrimPrefix(t.Name(), "Test"))}
	if len(n.name) > 40 {
		n.name = n.name[:40]
	}
	n.kubectl("create", "namespace", n.name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.try("", "get", "pods", "-o", "wide"))
			t.Log(n.try("", "get", "events"))
		}
		n.try("", "delete", "namespace", n.name, "--wait=false")
	})
	return n
}

// try runs kubectl and returns what it printed, whatever it was.
func (n *namespace) try(input string, args ...string) string {
	cmd := exec.Command(n.program, append([]string{"kubectl", "--kubeconfig", n.Config, "-n", n.name}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	output, _ := cmd.CombinedOutput()
	return string(output)
}

func (n *namespace) kubectl(args ...string) string {
	n.Helper()
	cmd := exec.Command(n.program, append([]string{"kubectl", "--kubeconfig", n.Config, "-n", n.name}, args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		n.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

func (n *namespace) apply(manifest string) {
	n.Helper()
	if output := n.try(manifest, "apply", "-f", "-"); strings.Contains(strings.ToLower(output), "error") {
		n.Fatalf("apply: %s", output)
	}
}

// field is a field of an object by its JSON path, empty where there is none.
func (n *namespace) field(object, path string) string {
	return n.try("", "get", object, "-o", "jsonpath="+path)
}

// eventually waits until the condition holds, which tells what is in its way.
func (n *namespace) eventually(within time.Duration, condition func() (missing string)) {
	n.Helper()
	began := time.Now()
	for {
		missing := condition()
		if missing == "" {
			return
		}
		if time.Since(began) > within {
			n.Fatalf("not within %s: %s", within, missing)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (n *namespace) awaitField(within time.Duration, object, path, want string) {
	n.Helper()
	n.eventually(within, func() string {
		if got := n.field(object, path); got != want {
			return fmt.Sprintf("%s of %s is %q, want %q", path, object, got, want)
		}
		return ""
	})
}

func (n *namespace) awaitLog(within time.Duration, pod, container, want string) {
	n.Helper()
	n.eventually(within, func() string {
		if got := n.log(pod, container); !strings.Contains(got, want) {
			return fmt.Sprintf("the log of %s has no %q:\n%s", container, want, got)
		}
		return ""
	})
}

// log is the plain file of the container's log.
func (n *namespace) log(pod, container string) string {
	content, _ := os.ReadFile(filepath.Join(n.folder, "pods", n.name+"_"+pod, container+".log"))
	return string(content)
}

// pid is the process of a container, as this machine sees it. A container that does not run has none: 0 would be the
// test's own process group for a signal.
func (n *namespace) pid(pod, container string) int {
	n.Helper()
	pid := n.pidOrZero(pod, container)
	if pid == 0 {
		n.Fatalf("%s of pod %s does not run", container, pod)
	}
	return pid
}

// pidOrZero is the same, and 0 for a container that does not run.
func (n *namespace) pidOrZero(pod, container string) int {
	n.Helper()
	output, err := exec.Command(n.program, "ctl", "--dir", n.folder, "pids", n.name, pod).Output()
	if err != nil {
		n.Fatalf("ctl pids: %v", err)
	}
	var processes []struct {
		Container string
		Pid       int
	}
	if err := json.Unmarshal(output, &processes); err != nil {
		n.Fatalf("ctl pids: %v: %s", err, output)
	}
	for _, process := range processes {
		if process.Container == container {
			return process.Pid
		}
	}
	n.Fatalf("ctl pids names no container %s: %s", container, output)
	return 0
}

func (n *namespace) control(args ...string) {
	n.Helper()
	if output, err := exec.Command(n.program, append([]string{"ctl", "--dir", n.folder}, args...)...).CombinedOutput(); err != nil {
		n.Fatalf("ctl %v: %v\n%s", args, err, output)
	}
}
