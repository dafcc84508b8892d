package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeprobe "k8s.io/kubernetes/pkg/probe"
	grpcprobe "k8s.io/kubernetes/pkg/probe/grpc"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	tcpprobe "k8s.io/kubernetes/pkg/probe/tcp"

	"haptic.rs/cluster/container"
)

var (
	// Certificates of probed servers are nobody's business, as in the kubelet.
	httpProber = httpprobe.NewWithTLSConfig(&tls.Config{InsecureSkipVerify: true}, false)
	tcpProber  = tcpprobe.New()
	grpcProber = grpcprobe.New()
)

// judge turns the answers of a probe into a verdict, by its thresholds.
type judge struct {
	successes, failures int32
	run                 int32
	lastGood            bool
}

func newJudge(probe *v1.Probe) *judge {
	return &judge{successes: max(probe.SuccessThreshold, 1), failures: max(probe.FailureThreshold, 1)}
}

// hear takes one answer and says whether the threshold for it is reached.
func (j *judge) hear(good bool) (reached bool) {
	if j.run == 0 || good != j.lastGood {
		j.run, j.lastGood = 0, good
	}
	j.run++
	if good {
		return j.run >= j.successes
	}
	return j.run >= j.failures
}

// probe runs the container's probes until it has ended. What is wrong enough to restart the container is told once.
func (u *unit) probe(alive, running context.Context, process *container.Process, unwell chan<- string) {
	if u.spec.Lifecycle != nil && u.spec.Lifecycle.PostStart != nil {
		if err := u.hook(running, process, u.spec.Lifecycle.PostStart); err != nil && running.Err() == nil {
			u.worker.event(v1.EventTypeWarning, "FailedPostStartHook", fmt.Sprintf("PostStartHook failed: %v", err))
			unwell <- "FailedPostStartHook"
			return
		}
	}
	starting, cancel := context.WithCancel(running)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	if u.spec.StartupProbe != nil && !u.probeStartup(starting, process, unwell) {
		return
	}
	u.change(func() {
		u.started = u.process == process
		u.ready = u.started && u.spec.ReadinessProbe == nil && u.kind != initContainer
	})
	u.onceStarted.Do(func() { close(u.startedOnce) })

	var probes sync.WaitGroup
	if u.spec.ReadinessProbe != nil {
		// Goes on while the pod ends: whoever still serves says so.
		probes.Go(func() { u.probeReadiness(running, process) })
	}
	if u.spec.LivenessProbe != nil {
		probes.Go(func() { u.probeLiveness(starting, process, unwell) })
	}
	probes.Wait()
}

func (u *unit) probeStartup(ctx context.Context, process *container.Process, unwell chan<- string) bool {
	started := false
	u.repeat(ctx, process, "Startup", u.spec.StartupProbe, func(good bool) (goOn bool) {
		if started = good; !good {
			unwell <- fmt.Sprintf("Container %s failed startup probe, will be restarted", u.spec.Name)
		}
		return false
	})
	return started
}

func (u *unit) probeReadiness(ctx context.Context, process *container.Process) {
	u.repeat(ctx, process, "Readiness", u.spec.ReadinessProbe, func(good bool) bool {
		u.worker.mutex.Lock()
		changed := u.process == process && u.ready != good
		if changed {
			u.ready = good
		}
		u.worker.mutex.Unlock()
		if changed {
			signal(u.worker.dirty)
		}
		return true
	})
}

func (u *unit) probeLiveness(ctx context.Context, process *container.Process, unwell chan<- string) {
	u.repeat(ctx, process, "Liveness", u.spec.LivenessProbe, func(good bool) bool {
		if !good {
			unwell <- fmt.Sprintf("Container %s failed liveness probe, will be restarted", u.spec.Name)
		}
		return good
	})
}

// repeat runs a probe in its period until the verdict says to end or the context does.
func (u *unit) repeat(ctx context.Context, process *container.Process, kind string, probe *v1.Probe, verdict func(good bool) (goOn bool)) {
	if !pause(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	judge := newJudge(probe)
	period := time.NewTicker(time.Duration(max(probe.PeriodSeconds, 1)) * time.Second)
	defer period.Stop()
	for {
		err := u.ask(ctx, process, probe)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			u.worker.event(v1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
		}
		if judge.hear(err == nil) && !verdict(err == nil) {
			return
		}
		select {
		case <-period.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask probes once and returns what is wrong.
func (u *unit) ask(ctx context.Context, process *container.Process, probe *v1.Probe) error {
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	address := u.worker.podAddress()
	var result kubeprobe.Result
	var output string
	var err error
	switch {
	case probe.Exec != nil:
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return u.execute(limited, process, probe.Exec.Command)
	case probe.HTTPGet != nil:
		request, failure := httpprobe.NewRequestForHTTPGetAction(probe.HTTPGet, u.spec, address, "probe")
		if failure != nil {
			return failure
		}
		result, output, err = httpProber.Probe(request, timeout)
	case probe.TCPSocket != nil:
		port, failure := kubeprobe.ResolveContainerPort(probe.TCPSocket.Port, u.spec)
		if failure != nil {
			return failure
		}
		if probe.TCPSocket.Host != "" {
			address = probe.TCPSocket.Host
		}
		result, output, err = tcpProber.Probe(address, port, timeout)
	case probe.GRPC != nil:
		service := ""
		if probe.GRPC.Service != nil {
			service = *probe.GRPC.Service
		}
		result, output, err = grpcProber.Probe(address, service, int(probe.GRPC.Port), timeout, grpcprobe.ProbeOptions{})
	default:
		return errors.New("the probe has no action")
	}
	if err != nil {
		return err
	}
	if result != kubeprobe.Success && result != kubeprobe.Warning {
		return errors.New(output)
	}
	return nil
}

// execute runs a command inside the container and returns why it did not succeed.
func (u *unit) execute(ctx context.Context, process *container.Process, command []string) error {
	output, err := os.CreateTemp("", "haptic-exec-")
	if err != nil {
		return err
	}
	defer output.Close()
	if err := os.Remove(output.Name()); err != nil {
		return err
	}
	code, err := u.enter(ctx, process, command, container.Streams{Stdout: output, Stderr: output})
	if err != nil {
		return err
	}
	if code == 0 {
		return nil
	}
	said := make([]byte, 1024)
	n, err := output.ReadAt(said, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("command ended with %d: %s", code, said[:n])
}
