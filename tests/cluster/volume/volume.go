// Package volume makes the volumes of one pod as folders that are then bound into its containers, and keeps those that
// show objects of the API up to date.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// Sources is where the contents come from.
type Sources struct {
	Client     kubernetes.Interface
	ConfigMaps corelisters.ConfigMapLister
	Secrets    corelisters.SecretLister
}

// Set is the volumes of one pod.
type Set struct {
	sources Sources
	folder  string
	pod     atomic.Pointer[v1.Pod]

	mutex  sync.Mutex
	tokens map[string]token
}

// NewSet describes the volumes of the pod, below the folder; Write makes them.
func NewSet(sources Sources, folder string, pod *v1.Pod) *Set {
	set := &Set{sources: sources, folder: folder, tokens: map[string]token{}}
	set.pod.Store(pod)
	return set
}

// Path is where the named volume is, or an error when the pod has none of that name.
func (s *Set) Path(name string) (string, error) {
	volume, ok := s.find(name)
	if !ok {
		return "", fmt.Errorf("the pod has no volume %q", name)
	}
	if volume.HostPath != nil {
		return volume.HostPath.Path, nil
	}
	return filepath.Join(s.folder, name), nil
}

// ReadOnly says whether the named volume shows objects of the API, which no container may write to.
func (s *Set) ReadOnly(name string) bool {
	volume, _ := s.find(name)
	return volume.ConfigMap != nil || volume.Secret != nil || volume.Projected != nil || volume.DownwardAPI != nil
}

// Uses says whether a volume shows the object; kind is ConfigMap or Secret.
func (s *Set) Uses(kind, name string) bool {
	for _, volume := range s.pod.Load().Spec.Volumes {
		switch {
		case volume.ConfigMap != nil && kind == "ConfigMap" && volume.ConfigMap.Name == name,
			volume.Secret != nil && kind == "Secret" && volume.Secret.SecretName == name:
			return true
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.ConfigMap != nil && kind == "ConfigMap" && source.ConfigMap.Name == name ||
					source.Secret != nil && kind == "Secret" && source.Secret.Name == name {
					return true
				}
			}
		}
	}
	return false
}

// SetPod replaces the pod, of which labels and annotations may have changed.
func (s *Set) SetPod(pod *v1.Pod) {
	s.pod.Store(pod)
}

// Write makes all volumes, or brings them up to date, and says when the next token must be renewed.
func (s *Set) Write(ctx context.Context) (renewal time.Time, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var failures []error
	for _, volume := range s.pod.Load().Spec.Volumes {
		if err := s.write(ctx, volume); err != nil {
			failures = append(failures, fmt.Errorf("volume %q: %w", volume.Name, err))
		}
	}
	for _, token := range s.tokens {
		if renewal.IsZero() || token.renewal.Before(renewal) {
			renewal = token.renewal
		}
	}
	return renewal, errors.Join(failures...)
}

// Remove removes all volumes and what is in them.
func (s *Set) Remove() {
	for _, volume := range s.pod.Load().Spec.Volumes {
		if volume.EmptyDir != nil {
			_ = unix.Unmount(filepath.Join(s.folder, volume.Name), unix.MNT_DETACH)
		}
	}
	_ = os.RemoveAll(s.folder)
}

func (s *Set) write(ctx context.Context, volume v1.Volume) error {
	switch {
	case volume.EmptyDir != nil:
		return s.writeEmpty(volume)
	case volume.HostPath != nil:
		return checkHostPath(volume.HostPath)
	case volume.ConfigMap != nil, volume.Secret != nil, volume.Projected != nil, volume.DownwardAPI != nil:
		payload, err := s.collect(ctx, volume)
		if err != nil {
			return err
		}
		return s.publish(volume.Name, payload)
	default:
		return errors.New("the test cluster has no volumes of this kind; it has configMap, secret, projected, downwardAPI, emptyDir and hostPath")
	}
}

func (s *Set) writeEmpty(volume v1.Volume) error {
	path := filepath.Join(s.folder, volume.Name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if volume.EmptyDir.Medium == v1.StorageMediumMemory {
		if err := unix.Mount("memory", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return fmt.Errorf("mount a tmpfs: %w", err)
		}
	}
	mode := os.FileMode(0o777)
	if group := s.group(); group != nil {
		if err := os.Chown(path, 0, int(*group)); err != nil {
			return err
		}
		mode |= os.ModeSetgid
	}
	return os.Chmod(path, mode)
}

func (s *Set) publish(name string, payload map[string]volumeutil.FileProjection) error {
	path := filepath.Join(s.folder, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	writer, err := volumeutil.NewAtomicWriter(path, s.pod.Load().Namespace+"/"+s.pod.Load().Name)
	if err != nil {
		return err
	}
	return writer.Write(payload, func(version string) error {
		group := s.group()
		if group == nil {
			return nil
		}
		return giveToGroup(filepath.Join(path, version), int(*group))
	})
}

func (s *Set) group() *int64 {
	if s.pod.Load().Spec.SecurityContext == nil {
		return nil
	}
	return s.pod.Load().Spec.SecurityContext.FSGroup
}

func (s *Set) find(name string) (v1.Volume, bool) {
	for _, volume := range s.pod.Load().Spec.Volumes {
		if volume.Name == name {
			return volume, true
		}
	}
	return v1.Volume{}, false
}

func giveToGroup(folder string, group int) error {
	return filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, group); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, info.Mode().Perm()|0o550|os.ModeSetgid)
		}
		return os.Chmod(path, info.Mode().Perm()|0o440)
	})
}

func checkHostPath(source *v1.HostPathVolumeSource) error {
	if source.Type != nil && *source.Type == v1.HostPathDirectoryOrCreate {
		return os.MkdirAll(source.Path, 0o755)
	}
	_, err := os.Stat(source.Path)
	return err
}
