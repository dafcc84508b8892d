package launch

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var (
	devices = map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7), "random": unix.Mkdev(1, 8),
		"urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
	}
	deviceLinks = map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	}
	// What container runtimes hide of the kernel, and what they only show.
	hiddenKernelFiles   = []string{"kcore", "keys", "latency_stats", "timer_list", "sched_debug"}
	readOnlyKernelFiles = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

func (r *root) mountKernel(privileged bool) error {
	proc := filepath.Join(r.path, "proc")
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Some sandboxes refuse sysfs; few programs miss it.
	_ = unix.Mount("sysfs", filepath.Join(r.path, "sys"), "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	if privileged {
		return nil
	}
	for _, name := range readOnlyKernelFiles {
		if path := filepath.Join(proc, name); exists(path) {
			if err := bindMount(path, path, true); err != nil {
				return err
			}
		}
	}
	for _, name := range hiddenKernelFiles {
		if path := filepath.Join(proc, name); exists(path) {
			if err := bindMount(filepath.Join(r.path, "dev/null"), path, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *root) mountDevices() error {
	dev := filepath.Join(r.path, "dev")
	if err := unix.Mount("dev", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	for name, number := range devices {
		path := filepath.Join(dev, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(number)); err != nil {
			return fmt.Errorf("make the device %s: %w", name, err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			return fmt.Errorf("make the device %s: %w", name, err)
		}
	}
	for name, target := range deviceLinks {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return fmt.Errorf("link /dev/%s: %w", name, err)
		}
	}
	for _, folder := range []string{"pts", "shm", "mqueue"} {
		if err := os.Mkdir(filepath.Join(dev, folder), 0o755); err != nil {
			return fmt.Errorf("make /dev/%s: %w", folder, err)
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("mount /dev/pts: %w", err)
	}
	if err := unix.Mount("shm", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
