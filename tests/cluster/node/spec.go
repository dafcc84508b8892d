package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"haptic.rs/cluster/container"
	"haptic.rs/cluster/image"
)

// containerSpec is how the next run of the container is started.
func (u *unit) containerSpec() (container.Spec, error) {
	pod := u.worker.snapshot()
	img, err := u.worker.agent.cfg.Images.Find(u.spec.Image)
	if err != nil {
		return container.Spec{}, &startError{reason: "ErrImagePull", event: "Failed", err: err}
	}
	security, err := securityOf(pod, u.spec, img)
	if err != nil {
		return container.Spec{}, &startError{reason: "CreateContainerConfigError", event: "Failed", err: err}
	}
	variables, err := u.environment(img, security.User)
	if err != nil {
		return container.Spec{}, &startError{reason: "CreateContainerConfigError", event: "Failed", err: err}
	}
	mounts, err := u.mounts(img, variables)
	if err != nil {
		return container.Spec{}, &startError{reason: "CreateContainerConfigError", event: "Failed", err: err}
	}
	command := img.Command(expand(u.spec.Command, variables), expand(u.spec.Args, variables))
	if len(command) == 0 {
		return container.Spec{}, &startError{reason: "CreateContainerError", event: "Failed", err: errors.New("no command: neither the image nor the pod names one")}
	}
	dir := u.spec.WorkingDir
	if dir == "" {
		dir = img.WorkingDir
	}
	return container.Spec{
		Root: u.worker.agent.rootMount(), HostProc: u.worker.agent.cfg.HostProc,
		Args: command, Env: asPairs(variables), Dir: dir, Mounts: mounts, Security: security,
	}, nil
}

// mounts are the image's files, the pod's own and the volumes.
func (u *unit) mounts(img image.Image, variables map[string]string) ([]container.Mount, error) {
	var mounts []container.Mount
	for target, source := range img.Binds {
		mounts = append(mounts, container.Mount{Source: source, Target: target, ReadOnly: true})
	}
	mounted := map[string]bool{}
	for _, mount := range u.spec.VolumeMounts {
		source, err := u.volumeSource(mount, variables)
		if err != nil {
			return nil, fmt.Errorf("mount at %s: %w", mount.MountPath, err)
		}
		mounted[filepath.Clean(mount.MountPath)] = true
		mounts = append(mounts, container.Mount{
			Source: source, Target: mount.MountPath, ReadOnly: mount.ReadOnly || u.worker.volumes.ReadOnly(mount.Name),
		})
	}
	for _, name := range networkFiles {
		if target := "/etc/" + name; !mounted[target] {
			mounts = append(mounts, container.Mount{Source: filepath.Join(u.worker.folder, name), Target: target})
		}
	}
	path := u.terminationPath()
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, err
	}
	target := u.spec.TerminationMessagePath
	if target == "" {
		target = v1.TerminationMessagePathDefault
	}
	return append(mounts, container.Mount{Source: path, Target: target}), nil
}

func (u *unit) volumeSource(mount v1.VolumeMount, variables map[string]string) (string, error) {
	source, err := u.worker.volumes.Path(mount.Name)
	if err != nil {
		return "", err
	}
	sub := mount.SubPath
	if mount.SubPathExpr != "" {
		sub = expansion.Expand(mount.SubPathExpr, expansion.MappingFuncFor(variables))
	}
	if sub == "" {
		return source, nil
	}
	return subPath(source, sub)
}

// subPath is a path inside a volume, with its links followed, which may not lead out of it. One that does not exist
// becomes a folder.
func subPath(volume, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q leads out of the volume", sub)
	}
	path := filepath.Join(volume, sub)
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return "", fmt.Errorf("make subPath %q: %w", sub, err)
		}
		// Whoever may write to the volume may write here as well.
		if info, err := os.Stat(volume); err == nil {
			_ = os.Chmod(path, info.Mode())
		}
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	}
	base, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	}
	if resolved != base && !strings.HasPrefix(resolved, base+"/") {
		return "", fmt.Errorf("subPath %q leads out of the volume", sub)
	}
	return resolved, nil
}

// securityOf is who runs the container and what it may do: its own context first, then the pod's, then the image's.
func securityOf(pod *v1.Pod, spec *v1.Container, img image.Image) (container.Security, error) {
	ofPod := pod.Spec.SecurityContext
	if ofPod == nil {
		ofPod = &v1.PodSecurityContext{}
	}
	own := spec.SecurityContext
	if own == nil {
		own = &v1.SecurityContext{}
	}
	s := container.Security{User: img.User, Group: img.User}
	if img.Group != nil {
		s.Group = *img.Group
	}
	if user := first(own.RunAsUser, ofPod.RunAsUser); user != nil {
		if int(*user) != img.User {
			s.Group = 0
		}
		s.User = int(*user)
	}
	if group := first(own.RunAsGroup, ofPod.RunAsGroup); group != nil {
		s.Group = int(*group)
	}
	if nonRoot := first(own.RunAsNonRoot, ofPod.RunAsNonRoot); nonRoot != nil && *nonRoot && s.User == 0 {
		return s, errors.New("container has runAsNonRoot and image will run as root")
	}
	for _, group := range ofPod.SupplementalGroups {
		s.Groups = append(s.Groups, int(group))
	}
	if ofPod.FSGroup != nil {
		s.Groups = append(s.Groups, int(*ofPod.FSGroup))
	}
	s.Privileged = own.Privileged != nil && *own.Privileged
	s.ReadOnlyRoot = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	s.NoNewPrivileges = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	s.Capabilities = capabilitiesOf(own.Capabilities)
	if profile := first(own.SeccompProfile, ofPod.SeccompProfile); profile != nil {
		s.Seccomp = profile.Type == v1.SeccompProfileTypeRuntimeDefault
	}
	return s, nil
}

func capabilitiesOf(asked *v1.Capabilities) []string {
	kept := map[string]bool{}
	for _, name := range container.DefaultCapabilities() {
		kept[name] = true
	}
	if asked != nil {
		for _, name := range asked.Drop {
			if strings.EqualFold(string(name), "ALL") {
				kept = map[string]bool{}
				break
			}
			delete(kept, strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_"))
		}
		for _, name := range asked.Add {
			kept[strings.TrimPrefix(strings.ToUpper(string(name)), "CAP_")] = true
		}
	}
	names := make([]string, 0, len(kept))
	for name := range kept {
		names = append(names, name)
	}
	return names
}

func first[T any](values ...*T) *T {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}
