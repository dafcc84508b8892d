package node

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

var (
	errDeleted  = errors.New("the pod is deleted")
	errDeadline = errors.New("the pod was active for longer than its deadline")
	errFinished = errors.New("all containers have finished")
)

// live runs the pod's containers until they have finished or the pod is to end, in the order that Kubernetes gives:
// init containers one by one, sidecars among them kept, then all others at once; at the end the sidecars backwards.
func (w *worker) live(ctx context.Context) {
	clusterEnds := context.AfterFunc(ctx, func() { w.stop(ctx.Err()); w.rush() })
	defer clusterEnds()
	if seconds := w.snapshot().Spec.ActiveDeadlineSeconds; seconds != nil {
		timer := time.AfterFunc(time.Duration(*seconds)*time.Second, func() { w.stop(errDeadline) })
		defer timer.Stop()
	}
	sidecars := &sidecars{}
	failed := !w.initialize(sidecars)
	if !failed {
		w.mutex.Lock()
		w.initialized = true
		w.mutex.Unlock()
		signal(w.dirty)
		w.runMain()
	}
	// Judged before the sidecars end, of which nothing depends; shown after, as nothing of a finished pod runs.
	w.mutex.Lock()
	outcome := w.outcome()
	w.mutex.Unlock()
	if failed {
		outcome = v1.PodFailed
	}
	sidecars.end()
	w.conclude(outcome)
}

// initialize says whether all init containers succeeded.
func (w *worker) initialize(sidecars *sidecars) bool {
	for _, unit := range w.units {
		switch unit.kind {
		case sidecarContainer:
			sidecars.start(unit)
			select {
			case <-unit.startedOnce:
			case <-w.stopping.Done():
				return false
			}
		case initContainer:
			if !unit.keep(w.stopping) {
				return false
			}
		}
		if w.ending() {
			return false
		}
	}
	return true
}

func (w *worker) runMain() {
	var all sync.WaitGroup
	for _, unit := range w.units {
		if unit.kind == mainContainer {
			all.Go(func() { unit.keep(w.stopping) })
		}
	}
	all.Wait()
}

// conclude gives the pod its final phase.
func (w *worker) conclude(outcome v1.PodPhase) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.phase = outcome
	if errors.Is(context.Cause(w.stopping), errDeadline) {
		w.phase, w.reason, w.message = v1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	}
	signal(w.dirty)
}

// outcome needs the mutex.
func (w *worker) outcome() v1.PodPhase {
	for _, unit := range w.units {
		if unit.kind == mainContainer && (unit.state.Terminated == nil || unit.state.Terminated.ExitCode != 0) {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

// sidecars are the init containers that live as long as the pod.
type sidecars struct {
	ends []func()
}

func (s *sidecars) start(unit *unit) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		unit.keep(ctx)
	}()
	s.ends = append(s.ends, func() {
		cancel(errFinished)
		<-ended
	})
}

func (s *sidecars) end() {
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
}

// grace is how long a container may take to end: what is left of the pod's time.
func (w *worker) grace() time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !w.deadline.IsZero() {
		return max(time.Until(w.deadline), 0)
	}
	if seconds := w.pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}
