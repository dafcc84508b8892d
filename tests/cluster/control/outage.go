package control

import (
	"context"
	"syscall"
	"time"
)

const apiServer = "kube-apiserver"

// After an outage of this length, clients of the API server wait up to half a minute between their tries.
const longOutage = 5 * time.Second

// How long two servers of the DNS answer side by side: until the new one has read the API.
const dnsOverlap = 3 * time.Second

// stop stops a component, of the API server it remembers when.
func (p *Plane) stop(ctx context.Context, process *Process, signal syscall.Signal) {
	process.Stop(ctx, signal)
	if process.Name == apiServer {
		p.outage.Store(time.Now().UnixNano())
	}
}

// startAgain starts a component. With the API server come, after a longer outage, fresh ones of those that would only
// notice late that it is back: the cluster shall work again at once, so that what a test measures is not them.
func (p *Plane) startAgain(ctx context.Context, process *Process) error {
	if err := process.Start(); err != nil || process.Name != apiServer {
		return err
	}
	if err := p.WaitReady(ctx); err != nil {
		return err
	}
	began := p.outage.Swap(0)
	if began == 0 || time.Since(time.Unix(0, began)) < longOutage {
		return nil
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		client := p.byName[name]
		if client.Pid() == 0 {
			continue
		}
		client.Stop(ctx, syscall.SIGKILL)
		if err := client.Start(); err != nil {
			return err
		}
	}
	// Names must be answered all the time.
	return p.byName["coredns"].Replace(dnsOverlap)
}
