package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
)

func (a *Agent) runInContainer(ctx context.Context, namespace, pod, name string, command []string, streams api.AttachIO) error {
	unit, err := a.unit(namespace, pod, name)
	if err != nil {
		return err
	}
	unit.worker.mutex.Lock()
	process := unit.process
	unit.worker.mutex.Unlock()
	if process == nil {
		return errdefs.NotFoundf("container %q does not run", name)
	}
	plumbing := &plumbing{}
	connect := plumbing.connect
	if streams.TTY() {
		connect = plumbing.connectTerminal
	}
	inner, err := connect(streams)
	if err != nil {
		plumbing.drain()
		return err
	}
	code, err := unit.enter(ctx, process, command, inner)
	plumbing.drain()
	if err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}

// exitError is understood by the exec protocol, which hands the code on to the client.
type exitError int

func (e exitError) Error() string   { return fmt.Sprintf("command terminated with exit code %d", int(e)) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

// plumbing joins the streams of a client to the files that a process has.
type plumbing struct {
	ours, theirs []*os.File
	copies       []chan struct{}
}

func (p *plumbing) connect(streams api.AttachIO) (inner container.Streams, err error) {
	pipe := func() (read, write *os.File) {
		if err == nil {
			read, write, err = os.Pipe()
		}
		return read, write
	}
	if streams.Stdin() != nil {
		read, write := pipe()
		inner.Stdin = read
		p.theirs = append(p.theirs, read)
		go func() {
			_, _ = io.Copy(write, streams.Stdin())
			_ = write.Close()
		}()
	}
	for _, out := range []struct {
		to   io.WriteCloser
		file **os.File
	}{{streams.Stdout(), &inner.Stdout}, {streams.Stderr(), &inner.Stderr}} {
		if out.to == nil {
			continue
		}
		read, write := pipe()
		*out.file = write
		p.theirs, p.ours = append(p.theirs, write), append(p.ours, read)
		done := make(chan struct{})
		p.copies = append(p.copies, done)
		go func() {
			defer close(done)
			_, _ = io.Copy(out.to, read)
		}()
	}
	return inner, err
}

// connectTerminal gives the process a terminal of its own, of which the client sees the other side.
func (p *plumbing) connectTerminal(streams api.AttachIO) (inner container.Streams, err error) {
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return inner, fmt.Errorf("open a terminal: %w", err)
	}
	p.ours = append(p.ours, ours)
	control, err := ours.SyscallConn()
	if err != nil {
		return inner, fmt.Errorf("open a terminal: %w", err)
	}
	var number int
	failure := control.Control(func(descriptor uintptr) {
		if err = unix.IoctlSetPointerInt(int(descriptor), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(descriptor), unix.TIOCGPTN)
		}
	})
	if err = errors.Join(err, failure); err != nil {
		return inner, fmt.Errorf("unlock a terminal: %w", err)
	}
	theirs, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return inner, fmt.Errorf("open a terminal's other side: %w", err)
	}
	p.theirs = append(p.theirs, theirs)
	if streams.Stdin() != nil {
		go func() { _, _ = io.Copy(ours, streams.Stdin()) }()
	}
	done := make(chan struct{})
	p.copies = append(p.copies, done)
	go func() {
		defer close(done)
		// Ends with an error when the last process has closed its side.
		_, _ = io.Copy(streams.Stdout(), ours)
	}()
	go func() {
		for size := range streams.Resize() {
			_ = control.Control(func(descriptor uintptr) {
				_ = unix.IoctlSetWinsize(int(descriptor), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
			})
		}
	}()
	return container.Streams{Stdin: theirs, Stdout: theirs, Stderr: theirs, Terminal: true}, nil
}

// drain waits until all that the process wrote is with the client.
func (p *plumbing) drain() {
	for _, file := range p.theirs {
		_ = file.Close()
	}
	for _, done := range p.copies {
		<-done
	}
	for _, file := range p.ours {
		_ = file.Close()
	}
}
