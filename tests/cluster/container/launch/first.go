package launch

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// First is the first process of a process namespace. It runs the program, if there is one, with the first descriptors
// beyond the standard streams, hands signals on to it, and buries whoever is orphaned; it ends with the program.
func First(descriptors string, program []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	child := -1
	if len(program) > 0 {
		count, err := strconv.Atoi(descriptors)
		if err != nil {
			fmt.Fprintf(os.Stderr, "count of descriptors %q: %v\n", descriptors, err)
			return 2
		}
		files := make([]uintptr, 3+count)
		for i := range files {
			files[i] = uintptr(i)
		}
		child, err = syscall.ForkExec(program[0], program, &syscall.ProcAttr{Env: os.Environ(), Files: files})
		if err != nil {
			fmt.Fprintf(os.Stderr, "start %s: %v\n", program[0], err)
			return 2
		}
	}
	for received := range signals {
		switch {
		case received == syscall.SIGCHLD:
			if code, ended := bury(child); ended {
				return code
			}
		case child > 0:
			_ = syscall.Kill(child, received.(syscall.Signal))
		default:
			return 0
		}
	}
	return 0
}

// bury collects every process that has ended, and says whether the child is among them.
func bury(child int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return code, ended
		}
		if pid == child {
			code, ended = status.ExitStatus(), true
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
	}
}
