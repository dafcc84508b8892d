package node

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/util/pod"
)

const (
	statusTimeout = 10 * time.Second
	statusRetry   = 300 * time.Millisecond
)

// The conditions that are the node's; others of a pod are left alone.
var nodeConditions = map[v1.PodConditionType]bool{
	v1.PodReadyToStartContainers: true, v1.PodInitialized: true, v1.ContainersReady: true, v1.PodReady: true,
}

// writeStatuses writes the pod's status whenever it changed, until the pod is done with. While the API server does not
// answer it tries on, with the newest status.
func (w *worker) writeStatuses(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-w.dirty:
		case <-done:
			return
		case <-ctx.Done():
			return
		}
		if !w.flush(ctx) {
			select {
			case <-time.After(statusRetry):
				signal(w.dirty)
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// flush writes the status as it is now, if it differs from what was written last, and says whether that is done.
func (w *worker) flush(ctx context.Context) bool {
	w.writing.Lock()
	defer w.writing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	w.mutex.Lock()
	if w.written == nil {
		w.written = ownPart(w.pod.Status)
	}
	last := w.written
	next := w.status(last)
	w.mutex.Unlock()
	_, _, _, err := podutil.PatchPodStatus(ctx, w.agent.cfg.Client, w.namespace, w.name, w.uid, *last, *next)
	if err != nil && !isGone(err) {
		return false
	}
	w.mutex.Lock()
	w.written = next
	w.mutex.Unlock()
	return true
}

// isGone is whether the object is another one or none by now, for which the status does not matter.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}

// ownPart is the node's part of a status.
func ownPart(status v1.PodStatus) *v1.PodStatus {
	own := status.DeepCopy()
	own.Conditions = nil
	for _, condition := range status.Conditions {
		if nodeConditions[condition.Type] {
			own.Conditions = append(own.Conditions, condition)
		}
	}
	return own
}

// status needs the mutex.
func (w *worker) status(last *v1.PodStatus) *v1.PodStatus {
	next := last.DeepCopy()
	next.ObservedGeneration = w.pod.Generation
	next.HostIP, next.HostIPs = w.hostAddress, []v1.HostIP{{IP: w.hostAddress}}
	if next.StartTime == nil {
		now := metav1.Now()
		next.StartTime = &now
	}
	if w.address != "" {
		next.PodIP, next.PodIPs = w.address, []v1.PodIP{{IP: w.address}}
	}
	next.ContainerStatuses, next.InitContainerStatuses = nil, nil
	for _, unit := range w.units {
		if unit.kind == mainContainer {
			next.ContainerStatuses = append(next.ContainerStatuses, unit.status())
		} else {
			next.InitContainerStatuses = append(next.InitContainerStatuses, unit.status())
		}
	}
	next.Phase, next.Reason, next.Message = w.currentPhase(), w.reason, w.message
	next.Conditions = w.conditions(last.Conditions)
	return next
}

func (u *unit) status() v1.ContainerStatus {
	started := u.started
	return v1.ContainerStatus{
		Name: u.spec.Name, Image: u.spec.Image, ImageID: u.spec.Image, ContainerID: u.id,
		State: *u.state.DeepCopy(), LastTerminationState: *u.last.DeepCopy(),
		Ready: u.ready, Started: &started, RestartCount: u.restarts,
	}
}

// currentPhase needs the mutex.
func (w *worker) currentPhase() v1.PodPhase {
	if w.phase != "" {
		return w.phase
	}
	if !w.initialized {
		return v1.PodPending
	}
	for _, unit := range w.units {
		if unit.kind == mainContainer && unit.state.Waiting != nil && unit.last.Terminated == nil {
			return v1.PodPending
		}
	}
	return v1.PodRunning
}

// conditions needs the mutex.
func (w *worker) conditions(last []v1.PodCondition) []v1.PodCondition {
	var unready []string
	for _, unit := range w.units {
		if unit.kind != initContainer && !unit.ready {
			unready = append(unready, unit.spec.Name)
		}
	}
	finished := w.phase != ""
	containersReady := condition(v1.ContainersReady, len(unready) == 0 && w.initialized && !finished, "ContainersNotReady", notReadyMessage(unready))
	ready := containersReady
	ready.Type = v1.PodReady
	if finished {
		for _, c := range []*v1.PodCondition{&containersReady, &ready} {
			c.Reason, c.Message = "PodFailed", ""
			if w.phase == v1.PodSucceeded {
				c.Reason = "PodCompleted"
			}
		}
	}
	if ready.Status == v1.ConditionTrue {
		for _, gate := range w.pod.Spec.ReadinessGates {
			if !isConditionTrue(w.pod.Status.Conditions, gate.ConditionType) {
				ready = condition(v1.PodReady, false, "ReadinessGatesNotReady", "the readiness gate "+string(gate.ConditionType)+" is not true")
			}
		}
	}
	conditions := []v1.PodCondition{
		condition(v1.PodReadyToStartContainers, w.prepared && !finished, "", ""),
		condition(v1.PodInitialized, w.initialized, "ContainersNotInitialized", "init containers have not all succeeded"),
		ready,
		containersReady,
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = w.pod.Generation
		conditions[i].LastTransitionTime = metav1.Now()
		for _, earlier := range last {
			if earlier.Type == conditions[i].Type && earlier.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = earlier.LastTransitionTime
			}
		}
	}
	return conditions
}

func condition(kind v1.PodConditionType, holds bool, reason, message string) v1.PodCondition {
	if holds {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue}
	}
	return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

func notReadyMessage(names []string) string {
	message := "containers with unready status: ["
	for i, name := range names {
		if i > 0 {
			message += " "
		}
		message += name
	}
	return message + "]"
}

func isConditionTrue(conditions []v1.PodCondition, kind v1.PodConditionType) bool {
	for _, condition := range conditions {
		if condition.Type == kind {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}

func (w *worker) podAddress() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.address
}
