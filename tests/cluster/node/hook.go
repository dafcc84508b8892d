package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"haptic.rs/cluster/container"
)

// hook runs a hook of the container's life until it is through.
func (u *unit) hook(ctx context.Context, process *container.Process, handler *v1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		return u.execute(ctx, process, handler.Exec.Command)
	case handler.HTTPGet != nil:
		request, err := httpprobe.NewRequestForHTTPGetAction(handler.HTTPGet, u.spec, u.worker.podAddress(), "lifecycle")
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request.WithContext(ctx))
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= 400 {
			return fmt.Errorf("the hook was answered with status %d", answer.StatusCode)
		}
		return nil
	case handler.Sleep != nil:
		pause(ctx, time.Duration(handler.Sleep.Seconds)*time.Second)
		return nil
	default:
		return errors.New("the hook has no action")
	}
}

// enter runs a command inside the running container until it ends, or kills it with the context.
func (u *unit) enter(ctx context.Context, process *container.Process, command []string, streams container.Streams) (code int, err error) {
	u.worker.mutex.Lock()
	spec := u.launched
	u.worker.mutex.Unlock()
	spec.Args = command
	inner, err := u.worker.agent.cfg.Launcher.Enter(spec, process, streams)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { inner.Signal(syscall.SIGKILL) })
	code, _ = inner.Wait()
	if !stop() && ctx.Err() != nil {
		return code, fmt.Errorf("command %q: %w", command[0], ctx.Err())
	}
	return code, nil
}
