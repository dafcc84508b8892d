package container

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ProcessNamespace makes a process namespace that several containers can share. All processes in it end with the
// returned function.
func (l Launcher) ProcessNamespace() (namespace *os.File, end func(), err error) {
	cmd := exec.Command(l.Binary, "pause")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the first process of a process namespace: %w", err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
	}
	namespace, err = os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/pid")
	if err != nil {
		kill()
		return nil, nil, fmt.Errorf("open a process namespace: %w", err)
	}
	return namespace, func() {
		_ = namespace.Close()
		kill()
	}, nil
}
