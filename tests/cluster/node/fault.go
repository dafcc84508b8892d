package node

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startError is why a container could not be started.
type startError struct {
	// reason is shown in the container's state, event in the Event.
	reason, event string
	// final counts as an end of the container, which its restart policy judges.
	final bool
	err   error
}

func (e *startError) Error() string { return e.err.Error() }

func (e *startError) Unwrap() error { return e.err }

// await shows why the container waits.
func (u *unit) await(err error) {
	fault := &startError{reason: "CreateContainerError", event: "Failed", err: err}
	errors.As(err, &fault)
	u.worker.event(v1.EventTypeWarning, fault.event, fault.Error())
	u.change(func() {
		reason := fault.reason
		// A second try of an image is told apart, as people know it.
		if reason == "ErrImagePull" && u.state.Waiting != nil && (u.state.Waiting.Reason == "ErrImagePull" || u.state.Waiting.Reason == "ImagePullBackOff") {
			reason = "ImagePullBackOff"
		}
		if fault.final {
			u.last = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				ExitCode: 128, Reason: "StartError", Message: fault.Error(), StartedAt: metav1.Now(), FinishedAt: metav1.Now(),
			}}
			u.restarts++
		}
		u.ready, u.started, u.process = false, false, nil
		u.state = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: fault.Error()}}
	})
}

func (u *unit) mayTryAgain(err error) bool {
	var fault *startError
	if !errors.As(err, &fault) || !fault.final || u.again(128) {
		return true
	}
	u.change(func() { u.state, u.last = u.last, v1.ContainerState{} })
	return false
}
