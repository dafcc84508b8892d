package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Process is one component. It is started again when it ends unasked, until it is stopped.
type Process struct {
	Name    string
	command []string
	logs    string
	say     func(string)

	mutex   sync.Mutex
	running *exec.Cmd
	wanted  bool
	ended   chan struct{}
}

// NewProcess describes the component; Start starts it.
func NewProcess(name string, command []string, logs string, say func(string)) *Process {
	return &Process{Name: name, command: command, logs: logs, say: say}
}

// Log is the path of the component's log.
func (p *Process) Log() string { return filepath.Join(p.logs, p.Name+".log") }

// Start starts the component and returns at once; when it runs already, nothing happens.
func (p *Process) Start() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.wanted {
		return nil
	}
	p.wanted = true
	if err := p.spawn(); err != nil {
		p.wanted = false
		return err
	}
	return nil
}

// Stop sends the signal and waits until the component has ended; one that is still there at the end of the context is
// killed.
func (p *Process) Stop(ctx context.Context, signal syscall.Signal) {
	p.mutex.Lock()
	p.wanted = false
	running, ended := p.running, p.ended
	if running != nil {
		_ = running.Process.Signal(signal)
	}
	p.mutex.Unlock()
	if running == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
		_ = running.Process.Kill()
		<-ended
	}
}

// Replace starts a second one beside the running one, and ends that after the overlap: for a server that shares its port
// with its successor. It does nothing to a component that does not run.
func (p *Process) Replace(overlap time.Duration) error {
	p.mutex.Lock()
	old := p.running
	if old == nil {
		p.mutex.Unlock()
		return nil
	}
	err := p.spawn()
	p.mutex.Unlock()
	if err != nil {
		return err
	}
	time.AfterFunc(overlap, func() { _ = old.Process.Kill() })
	return nil
}

// Pid is the process id inside the cluster, 0 when the component does not run.
func (p *Process) Pid() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running == nil {
		return 0
	}
	return p.running.Process.Pid
}

// spawn needs the mutex.
func (p *Process) spawn() error {
	log, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// The terminal's signals reach the first process alone, which ends the others in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.running, p.ended = cmd, ended
	go p.attend(cmd, ended)
	return nil
}

func (p *Process) attend(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	var failure *exec.ExitError
	if err != nil && !errors.As(err, &failure) {
		p.say(fmt.Sprintf("%s: %v", p.Name, err))
	}
	p.mutex.Lock()
	replaced := p.running != cmd
	if !replaced {
		p.running = nil
	}
	close(ended)
	unasked := p.wanted && !replaced
	p.mutex.Unlock()
	if !unasked {
		return
	}
	p.say(fmt.Sprintf("%s ended (%s); starting it again, its log is %s", p.Name, cmd.ProcessState, p.Log()))
	for {
		time.Sleep(time.Second)
		p.mutex.Lock()
		if !p.wanted || p.running != nil {
			p.mutex.Unlock()
			return
		}
		err := p.spawn()
		p.mutex.Unlock()
		if err == nil {
			return
		}
		p.say(err.Error())
	}
}
