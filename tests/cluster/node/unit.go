package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"haptic.rs/cluster/container"
)

type unitKind int

const (
	initContainer unitKind = iota
	sidecarContainer
	mainContainer
)

// What is left for the end of a process whose pod has no time left, as in the kubelet.
const leastGrace = 2 * time.Second

// What a terminated container may leave as its message.
const longestMessage = 4096

// unit is one container of a pod, over all its restarts.
type unit struct {
	worker *worker
	spec   *v1.Container
	index  int
	kind   unitKind
	// startedOnce is closed when the container has started for the first time, its startup probe included.
	startedOnce chan struct{}
	onceStarted sync.Once

	// The worker's mutex guards what follows.
	state, last    v1.ContainerState
	restarts       int32
	ready, started bool
	process        *container.Process
	// launched is how the newest run was started.
	launched container.Spec
	id       string
	runs     int
}

func kindOfInit(spec *v1.Container) unitKind {
	if spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return sidecarContainer
	}
	return initContainer
}

func newUnit(w *worker, spec *v1.Container, index int, kind unitKind) *unit {
	reason := "ContainerCreating"
	if len(w.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	return &unit{
		worker: w, spec: spec, index: index, kind: kind, startedOnce: make(chan struct{}),
		state: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}},
	}
}

// keep runs the container, again and again as its policy says, and returns when it is done with: whether it succeeded.
func (u *unit) keep(alive context.Context) (succeeded bool) {
	backoff := backoff{}
	for alive.Err() == nil {
		process, err := u.start()
		if err != nil {
			u.await(err)
			if !u.mayTryAgain(err) {
				return false
			}
			if !pause(alive, backoff.next(0)) {
				u.giveUp()
				return false
			}
			continue
		}
		began := time.Now()
		code := u.attend(alive, process)
		if alive.Err() != nil {
			return code == 0
		}
		if !u.again(code) {
			return code == 0
		}
		delay := backoff.next(time.Since(began))
		u.waitForRestart(code, delay)
		if !pause(alive, delay) {
			u.giveUp()
			return false
		}
		u.change(func() { u.restarts++ })
	}
	u.giveUp()
	return false
}

// again is whether a container that ended with the exit code is started once more.
func (u *unit) again(code int) bool {
	policy := u.worker.snapshot().Spec.RestartPolicy
	switch {
	case u.kind == sidecarContainer:
		return true
	case u.kind == initContainer && code == 0:
		return false
	case u.kind == initContainer:
		return policy != v1.RestartPolicyNever
	case policy == v1.RestartPolicyAlways:
		return true
	default:
		return policy == v1.RestartPolicyOnFailure && code != 0
	}
}

// start starts the container once. Its new state is visible when this returns.
func (u *unit) start() (*container.Process, error) {
	spec, err := u.containerSpec()
	if err != nil {
		return nil, err
	}
	log, err := u.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	u.worker.mutex.Lock()
	namespaces := u.worker.namespaces
	u.worker.mutex.Unlock()
	process, err := u.worker.agent.cfg.Launcher.Start(spec, namespaces, container.Streams{Stdout: log, Stderr: log})
	if err != nil {
		return nil, &startError{reason: "RunContainerError", event: "Failed", final: true, err: err}
	}
	u.change(func() {
		u.process, u.launched, u.id = process, spec, fmt.Sprintf("process://%d", process.HostPid)
		u.state = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}
		u.started, u.ready = false, false
	})
	u.worker.event(v1.EventTypeNormal, "Started", "Started container "+u.spec.Name)
	return process, nil
}

// attend looks after a running container until it has ended, and returns its exit code.
func (u *unit) attend(alive context.Context, process *container.Process) int {
	running, ended := context.WithCancel(context.Background())
	type ending struct {
		code   int
		signal syscall.Signal
	}
	end := make(chan ending, 1)
	go func() {
		code, signal := process.Wait()
		ended()
		end <- ending{code, signal}
	}()
	unwell := make(chan string, 1)
	// The probes are through with the process before its state changes for the last time.
	var probes sync.WaitGroup
	probes.Go(func() { u.probe(alive, running, process, unwell) })
	select {
	case <-running.Done():
	case why := <-unwell:
		u.worker.event(v1.EventTypeNormal, "Killing", why)
		u.end(running, process, u.killGrace())
	case <-alive.Done():
		u.worker.event(v1.EventTypeNormal, "Killing", "Stopping container "+u.spec.Name)
		u.end(running, process, u.worker.grace())
	}
	last := <-end
	probes.Wait()
	u.conclude(last.code, last.signal)
	return last.code
}

// end asks the container to end and makes it end when its time is over.
func (u *unit) end(running context.Context, process *container.Process, grace time.Duration) {
	deadline := time.Now().Add(grace)
	patient, cancel := context.WithCancel(running)
	defer cancel()
	defer context.AfterFunc(u.worker.hurry, cancel)()
	if u.spec.Lifecycle != nil && u.spec.Lifecycle.PreStop != nil {
		limited, release := context.WithDeadline(patient, deadline)
		err := u.hook(limited, process, u.spec.Lifecycle.PreStop)
		release()
		if err != nil && running.Err() == nil {
			u.worker.event(v1.EventTypeWarning, "FailedPreStopHook", fmt.Sprintf("PreStopHook failed: %v", err))
		}
	}
	process.Signal(syscall.SIGTERM)
	// Whatever came before, a process has a moment to end by itself.
	pause(patient, max(time.Until(deadline), leastGrace))
	if running.Err() == nil {
		process.Signal(syscall.SIGKILL)
	}
	<-running.Done()
}

func (u *unit) killGrace() time.Duration {
	if probe := u.spec.LivenessProbe; probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return u.worker.grace()
}

// conclude records how the container ended.
func (u *unit) conclude(code int, signal syscall.Signal) {
	terminated := &v1.ContainerStateTerminated{
		ExitCode: int32(code), Signal: int32(signal), Reason: "Error", FinishedAt: metav1.Now(), ContainerID: u.id,
		Message: u.lastWords(code),
	}
	if code == 0 {
		terminated.Reason = "Completed"
	}
	u.change(func() {
		if u.state.Running != nil {
			terminated.StartedAt = u.state.Running.StartedAt
		}
		u.state = v1.ContainerState{Terminated: terminated}
		u.process, u.ready, u.started = nil, false, false
		// A regular init container stays ready once it has succeeded.
		if u.kind == initContainer {
			u.ready = code == 0
		}
	})
}

func (u *unit) waitForRestart(code int, delay time.Duration) {
	u.change(func() {
		u.last = u.state
		if delay > 0 {
			u.state = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{
				Reason:  "CrashLoopBackOff",
				Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, u.spec.Name, u.worker.name, u.worker.namespace, u.worker.uid),
			}}
		}
	})
	if delay > 0 {
		u.worker.event(v1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s, which ended with %d", u.spec.Name, code))
	}
}

// giveUp makes a container that was about to run again, or never ran, a terminated one.
func (u *unit) giveUp() {
	u.change(func() {
		switch {
		case u.state.Terminated != nil:
		case u.last.Terminated != nil:
			u.state, u.last = u.last, v1.ContainerState{}
		default:
			u.state = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container was not running when the pod was terminated",
			}}
		}
	})
}

func (u *unit) change(apply func()) {
	u.worker.mutex.Lock()
	apply()
	u.worker.mutex.Unlock()
	signal(u.worker.dirty)
}

// openLog opens the log of the next run; the file without a number is always the newest.
func (u *unit) openLog() (*os.File, error) {
	current := u.logPath(-1)
	if u.runs > 0 {
		if err := os.Rename(current, u.logPath(u.runs-1)); err != nil {
			return nil, &startError{reason: "CreateContainerError", event: "Failed", err: err}
		}
	}
	file, err := os.OpenFile(current, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, &startError{reason: "CreateContainerError", event: "Failed", err: err}
	}
	u.change(func() { u.runs++ })
	return file, nil
}

// logPath is where the log of a run is, counted from 0; that of the newest run has no number.
func (u *unit) logPath(run int) string {
	if run < 0 {
		return filepath.Join(u.worker.logs, u.spec.Name+".log")
	}
	return filepath.Join(u.worker.logs, fmt.Sprintf("%s.%d.log", u.spec.Name, run))
}

func (u *unit) terminationPath() string {
	return filepath.Join(u.worker.folder, "termination", u.spec.Name)
}

func (u *unit) lastWords(code int) string {
	path := u.terminationPath()
	content, err := os.ReadFile(path)
	if err == nil && len(content) == 0 && code != 0 && u.spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
		content, err = os.ReadFile(u.logPath(-1))
	}
	if err != nil {
		return ""
	}
	if len(content) > longestMessage {
		content = content[len(content)-longestMessage:]
	}
	return string(content)
}
