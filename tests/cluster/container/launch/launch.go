// Package launch is the half of the container package that runs inside the new namespaces: it builds the root, gives
// up what the container may not have and executes the program.
package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
)

// Run becomes the container's program and returns only when that fails.
func Run() int {
	// Users, capabilities and namespaces are properties of a thread; the one that executes the program counts.
	runtime.LockOSThread()
	unix.CloseOnExec(container.SpecDescriptor)
	unix.CloseOnExec(container.ReportDescriptor)
	report := os.NewFile(container.ReportDescriptor, "report")
	say := func(r container.Report) { _ = json.NewEncoder(report).Encode(r) }

	var spec container.Spec
	if err := json.NewDecoder(os.NewFile(container.SpecDescriptor, "spec")).Decode(&spec); err != nil {
		say(container.Report{Error: fmt.Sprintf("read the container's spec: %v", err)})
		return 128
	}
	if err := become(spec, say); err != nil {
		say(container.Report{Error: err.Error()})
		return 128
	}
	return 0
}

func become(spec container.Spec, say func(container.Report)) error {
	hostPid, err := ownHostPid(spec)
	if err != nil {
		return err
	}
	if spec.Enter {
		err = enter()
	} else {
		err = buildRoot(spec)
	}
	if err != nil {
		return err
	}
	if err := workIn(spec); err != nil {
		return err
	}
	program, err := find(spec.Args[0], spec.Env)
	if err != nil {
		return err
	}
	// The streams belong to the container's user, as the paths /dev/stdout and /dev/stderr are opened anew by some.
	for stream := 1; stream <= 2; stream++ {
		_ = unix.Fchown(stream, spec.Security.User, spec.Security.Group)
	}
	if err := restrict(spec.Security); err != nil {
		return err
	}
	say(container.Report{HostPid: hostPid})
	if err := unix.Exec(program, spec.Args, spec.Env); err != nil {
		return fmt.Errorf("exec %s: %w", program, err)
	}
	return nil
}

// ownHostPid asks the outermost proc file system, which shows every process under the id that it has outside.
func ownHostPid(spec container.Spec) (int, error) {
	link, err := os.Readlink(filepath.Join(spec.HostProc, "self"))
	if err != nil {
		return 0, fmt.Errorf("learn the process id outside: %w", err)
	}
	return strconv.Atoi(link)
}

func enter() error {
	// A thread that shares its root folder with others may not change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare the root folder: %w", err)
	}
	unix.CloseOnExec(container.MountDescriptor)
	if err := unix.Setns(container.MountDescriptor, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container's mounts: %w", err)
	}
	return nil
}

func workIn(spec container.Spec) error {
	folder := spec.Dir
	if folder == "" {
		folder = "/"
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the working folder %s: %w", folder, err)
	}
	if err := os.Chdir(folder); err != nil {
		return fmt.Errorf("change to the working folder: %w", err)
	}
	return nil
}

// find looks a program up in the container's own PATH.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, pair := range env {
		path, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(path) {
			candidate := filepath.Join(folder, name)
			if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return candidate, nil
			}
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}
