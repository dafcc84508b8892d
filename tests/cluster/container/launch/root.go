package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
)

var (
	// Where the machine's programs and libraries are; most of them are links into /usr.
	systemFolders = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
	// What programs read of /etc. The rest is the container's own, so that volumes can be mounted anywhere in it.
	systemFiles = []string{
		"alternatives", "ca-certificates", "ca-certificates.conf", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
		"localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols", "services", "ssl",
	}
)

// root is the tree that becomes the container's /.
type root struct {
	path     string
	overlaid map[string]bool
}

func buildRoot(spec container.Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("container", spec.Root, "tmpfs", unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount the container's root: %w", err)
	}
	r := &root{path: spec.Root, overlaid: map[string]bool{}}
	if err := r.layOut(); err != nil {
		return err
	}
	// Before the volumes, of which some are mounted below /dev.
	if err := r.mountDevices(); err != nil {
		return err
	}
	// A mount below another one comes after it.
	mounts := append([]container.Mount(nil), spec.Mounts...)
	sort.SliceStable(mounts, func(i, j int) bool {
		return strings.Count(filepath.Clean(mounts[i].Target), "/") < strings.Count(filepath.Clean(mounts[j].Target), "/")
	})
	for _, mount := range mounts {
		if err := r.bind(mount); err != nil {
			return err
		}
	}
	if err := r.mountKernel(spec.Security.Privileged); err != nil {
		return err
	}
	return r.pivot(spec.Security.ReadOnlyRoot)
}

func (r *root) layOut() error {
	for _, folder := range []string{"etc", "dev", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var", "var/cache", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(r.path, folder), 0o755); err != nil {
			return fmt.Errorf("lay out the container's root: %w", err)
		}
	}
	for _, folder := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(filepath.Join(r.path, folder), 0o777|os.ModeSticky); err != nil {
			return fmt.Errorf("lay out the container's root: %w", err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(r.path, "var/run")); err != nil {
		return fmt.Errorf("lay out the container's root: %w", err)
	}
	// Upper halves of overlays live on a tmpfs that the proc file system hides later.
	if err := unix.Mount("upper", filepath.Join(r.path, "proc"), "tmpfs", 0, "mode=700"); err != nil {
		return fmt.Errorf("mount the upper halves: %w", err)
	}
	for _, name := range systemFolders {
		if err := r.borrow(name); err != nil {
			return err
		}
	}
	for _, name := range systemFiles {
		if err := r.borrow("etc/" + name); err != nil {
			return err
		}
	}
	return nil
}

// borrow makes a file, folder or link of the machine visible under the same name, not writable.
func (r *root) borrow(name string) error {
	source, target := "/"+name, filepath.Join(r.path, name)
	info, err := os.Lstat(source)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", source, err)
	}
	if info.Mode()&os.ModeSymlink != 0 {
		link, err := os.Readlink(source)
		if err != nil {
			return fmt.Errorf("read the link %s: %w", source, err)
		}
		return os.Symlink(link, target)
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	return bindMount(source, target, true)
}

func (r *root) bind(mount container.Mount) error {
	info, err := os.Stat(mount.Source)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", mount.Target, err)
	}
	target, err := r.resolve(mount.Target)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", mount.Target, err)
	}
	err = makeTarget(target, info.IsDir())
	if errors.Is(err, unix.EROFS) {
		if err = r.overlay(target); err == nil {
			err = makeTarget(target, info.IsDir())
		}
	}
	if err != nil {
		return fmt.Errorf("mount at %s: %w", mount.Target, err)
	}
	if err := bindMount(mount.Source, target, mount.ReadOnly); err != nil {
		return fmt.Errorf("mount at %s: %w", mount.Target, err)
	}
	return nil
}

// overlay lays an empty folder over the one of the machine that the target is in, so that it can be made there
// without touching the machine.
func (r *root) overlay(target string) error {
	relative, err := filepath.Rel(r.path, target)
	if err != nil {
		return err
	}
	top, _, _ := strings.Cut(relative, "/")
	if top == "etc" {
		top = strings.Join(strings.SplitN(relative, "/", 3)[:2], "/")
	}
	if r.overlaid[top] {
		return fmt.Errorf("make %s: %w", relative, unix.EROFS)
	}
	r.overlaid[top] = true
	half := filepath.Join(r.path, "proc", strings.ReplaceAll(top, "/", "-"))
	upper, work := half+"/upper", half+"/work"
	for _, folder := range []string{upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=/%s,upperdir=%s,workdir=%s", top, upper, work)
	if err := unix.Mount("overlay", filepath.Join(r.path, top), "overlay", 0, options); err != nil {
		return fmt.Errorf("lay an overlay over /%s: %w", top, err)
	}
	return nil
}

// resolve follows the links of the path as the container would, within its root.
func (r *root) resolve(path string) (string, error) {
	resolved, rest := "/", strings.Split(filepath.Clean("/"+path), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(resolved, rest[0])
		rest = rest[1:]
		link, err := os.Readlink(filepath.Join(r.path, next))
		if err != nil {
			resolved = next
			continue
		}
		if links++; links > 40 {
			return "", unix.ELOOP
		}
		if filepath.IsAbs(link) {
			resolved = "/"
		}
		rest = append(strings.Split(link, "/"), rest...)
	}
	return filepath.Join(r.path, resolved), nil
}

func makeTarget(target string, isFolder bool) error {
	if info, err := os.Stat(target); err == nil && info.IsDir() == isFolder {
		return nil
	}
	if isFolder {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

func bindMount(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", source, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", source, err)
	}
	return nil
}

func (r *root) pivot(readOnly bool) error {
	if err := os.Chdir(r.path); err != nil {
		return fmt.Errorf("change to the container's root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("change to the new root: %w", err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	for top := range r.overlaid {
		if err := unix.Mount("", "/"+top, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make /%s read-only: %w", top, err)
		}
	}
	return nil
}
