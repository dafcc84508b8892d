package node

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"haptic.rs/cluster/image"
)

func TestJudgeReachesItsVerdictsByTheThresholds(t *testing.T) {
	judge := newJudge(&v1.Probe{SuccessThreshold: 2, FailureThreshold: 3})
	var reached []bool
	for _, good := range []bool{true, true, false, false, true, false, false, false} {
		reached = append(reached, judge.hear(good))
	}
	want := []bool{false, true, false, false, false, false, false, true}
	if !reflect.DeepEqual(reached, want) {
		t.Errorf("got %v, want %v", reached, want)
	}
}

func TestBackoffBeginsWithNoneAndForgives(t *testing.T) {
	b := backoff{}
	var delays []time.Duration
	for range 7 {
		delays = append(delays, b.next(time.Millisecond)/time.Second)
	}
	if want := []time.Duration{0, 1, 2, 4, 8, 10, 10}; !reflect.DeepEqual(delays, want) {
		t.Errorf("got %v, want %v", delays, want)
	}
	if delay := b.next(forgivenAfter); delay != 0 {
		t.Errorf("after a long run the delay is %s", delay)
	}
}

func TestSubPathStaysInTheVolume(t *testing.T) {
	volume := t.TempDir()
	for _, step := range []error{
		os.Mkdir(filepath.Join(volume, "..1"), 0o755),
		os.WriteFile(filepath.Join(volume, "..1/key"), nil, 0o644),
		os.Symlink("..1", filepath.Join(volume, "..data")),
		os.Symlink("..data/key", filepath.Join(volume, "key")),
		os.Symlink("/etc", filepath.Join(volume, "out")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if got, err := subPath(volume, "key"); err != nil || !strings.HasSuffix(got, "/..1/key") {
		t.Errorf("key: got %q, %v", got, err)
	}
	if got, err := subPath(volume, "new/folder"); err != nil || !exists(got) {
		t.Errorf("a new folder: got %q, %v", got, err)
	}
	for _, sub := range []string{"../x", "/etc", "out", "out/passwd"} {
		if got, err := subPath(volume, sub); err == nil {
			t.Errorf("%s: got %q, want an error", sub, got)
		}
	}
}

func TestSecurityComesFromTheContainerThenThePodThenTheImage(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	yes := true
	img := image.Image{User: 65532}
	for name, c := range map[string]struct {
		pod         *v1.PodSecurityContext
		own         *v1.SecurityContext
		user, group int
	}{
		"image":            {nil, nil, 65532, 65532},
		"pod":              {&v1.PodSecurityContext{RunAsUser: number(7)}, nil, 7, 0},
		"container":        {&v1.PodSecurityContext{RunAsUser: number(7), RunAsGroup: number(8)}, &v1.SecurityContext{RunAsUser: number(9)}, 9, 8},
		"the image's user": {&v1.PodSecurityContext{RunAsUser: number(65532), RunAsNonRoot: &yes}, nil, 65532, 65532},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: c.pod}}
		s, err := securityOf(pod, &v1.Container{SecurityContext: c.own}, img)
		if err != nil || s.User != c.user || s.Group != c.group {
			t.Errorf("%s: got %d:%d, %v, want %d:%d", name, s.User, s.Group, err, c.user, c.group)
		}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: &yes}}}
	if _, err := securityOf(pod, &v1.Container{}, image.Image{}); err == nil {
		t.Error("a root image was accepted with runAsNonRoot")
	}
}

func TestCapabilitiesAreDroppedBeforeSomeAreAdded(t *testing.T) {
	got := capabilitiesOf(&v1.Capabilities{Drop: []v1.Capability{"all"}, Add: []v1.Capability{"CAP_NET_BIND_SERVICE"}})
	if want := []string{"NET_BIND_SERVICE"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := capabilitiesOf(nil); len(got) != 14 {
		t.Errorf("by default a container has %d capabilities, want 14", len(got))
	}
}

func TestTailBeginsAtTheLastLines(t *testing.T) {
	for content, want := range map[string]string{"a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc", "a\n": "a\n", "": "", "\n\n\n": "\n\n"} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := seekToTail(file, 2); err != nil {
			t.Fatal(err)
		}
		rest := make([]byte, 100)
		n, _ := file.Read(rest)
		if string(rest[:n]) != want {
			t.Errorf("%q: got %q, want %q", content, rest[:n], want)
		}
	}
}
