package container

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces are those of a pod. PID is nil where every container has its own.
type Namespaces struct {
	Net, IPC, UTS, PID *os.File
}

// Streams are the standard streams of a process; a nil Stdin is empty.
type Streams struct {
	Stdin          *os.File
	Stdout, Stderr *os.File
	// Terminal says that they are all one terminal, which becomes the process' own.
	Terminal bool
}

// Launcher starts containers with the small binary.
type Launcher struct {
	// Binary is the path of haptic-pod.
	Binary string
}

// Process is a running container's main process, or one that entered a container.
type Process struct {
	// HostPid is the process id seen from outside of the cluster.
	HostPid int
	process *os.Process
}

// Start runs the spec in the namespaces and returns once the program of the container runs.
func (l Launcher) Start(spec Spec, ns Namespaces, streams Streams) (*Process, error) {
	flags := uintptr(unix.CLONE_NEWNS)
	if ns.PID == nil {
		flags |= unix.CLONE_NEWPID
	}
	return l.launch(spec, ns, streams, flags, nil)
}

// Enter runs the spec inside the running container of the process.
func (l Launcher) Enter(spec Spec, target *Process, streams Streams) (*Process, error) {
	spec.Enter = true
	open := func(kind string) (*os.File, error) {
		file, err := os.Open("/proc/" + strconv.Itoa(target.process.Pid) + "/ns/" + kind)
		if err != nil {
			return nil, fmt.Errorf("open the %s namespace of process %d: %w", kind, target.process.Pid, err)
		}
		return file, nil
	}
	var files [5]*os.File
	defer func() {
		for _, file := range files {
			_ = file.Close()
		}
	}()
	for i, kind := range []string{"net", "ipc", "uts", "pid", "mnt"} {
		file, err := open(kind)
		if err != nil {
			return nil, err
		}
		files[i] = file
	}
	ns := Namespaces{Net: files[0], IPC: files[1], UTS: files[2], PID: files[3]}
	return l.launch(spec, ns, streams, 0, files[4])
}

func (l Launcher) launch(spec Spec, ns Namespaces, streams Streams, flags uintptr, mounts *os.File) (*Process, error) {
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer specWrite.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		_ = specRead.Close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer reportRead.Close()

	cmd := exec.Command(l.Binary, "launch")
	cmd.Env = []string{}
	if streams.Stdin != nil {
		cmd.Stdin = streams.Stdin
	}
	cmd.Stdout, cmd.Stderr = streams.Stdout, streams.Stderr
	cmd.ExtraFiles = []*os.File{specRead, reportWrite}
	if mounts != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, mounts)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Setsid: true, Setctty: streams.Terminal}
	err = OnOwnThread(func() error {
		if err := ns.join(); err != nil {
			return err
		}
		return cmd.Start()
	})
	_ = specRead.Close()
	_ = reportWrite.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Binary, err)
	}
	process := &Process{process: cmd.Process}
	if err := process.handOver(spec, specWrite, reportRead); err != nil {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		return nil, err
	}
	return process, nil
}

// handOver gives the process its spec and waits until it is the container's program.
func (p *Process) handOver(spec Spec, to io.WriteCloser, from io.Reader) error {
	if err := json.NewEncoder(to).Encode(spec); err != nil {
		return fmt.Errorf("hand over the container's spec: %w", err)
	}
	if err := to.Close(); err != nil {
		return fmt.Errorf("hand over the container's spec: %w", err)
	}
	// The pipe ends when the program is executed, which closes it; what was said last counts.
	var last Report
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return fmt.Errorf("read the report of a container's start: %w", err)
		}
	}
	if last.Error != "" {
		return errors.New(last.Error)
	}
	if last.HostPid == 0 {
		return errors.New("the container's process ended before its program was executed")
	}
	p.HostPid = last.HostPid
	return nil
}

// Wait waits for the end and returns the exit code, 128 and the signal's number for a process that was killed.
func (p *Process) Wait() (exitCode int, signal syscall.Signal) {
	state, err := p.process.Wait()
	if err != nil {
		return 255, 0
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), status.Signal()
	}
	return state.ExitCode(), 0
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(signal syscall.Signal) {
	_ = p.process.Signal(signal)
}

func (n Namespaces) join() error {
	for _, ns := range []struct {
		file *os.File
		kind int
	}{{n.Net, unix.CLONE_NEWNET}, {n.IPC, unix.CLONE_NEWIPC}, {n.UTS, unix.CLONE_NEWUTS}, {n.PID, unix.CLONE_NEWPID}} {
		if ns.file == nil {
			continue
		}
		if err := unix.Setns(int(ns.file.Fd()), ns.kind); err != nil {
			return fmt.Errorf("join a namespace of the pod: %w", err)
		}
	}
	return nil
}

// OnOwnThread runs the function on a thread of its own that ends with it, so that the thread's namespaces can change.
func OnOwnThread(run func() error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread must not be used for anything else afterwards.
		runtime.LockOSThread()
		done <- run()
	}()
	return <-done
}
