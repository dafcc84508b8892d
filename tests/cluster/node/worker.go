package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"haptic.rs/cluster/container"
	"haptic.rs/cluster/network"
	"haptic.rs/cluster/volume"
)

// How long between two tries to make what a pod needs, such as a volume of a Secret that is not there yet.
const retryEvery = time.Second

// worker lives one pod's life.
type worker struct {
	agent           *Agent
	namespace, name string
	uid             types.UID
	hostAddress     string
	volumes         *volume.Set
	// folder holds the pod's own files, logs those of its containers.
	folder, logs string

	// dirty wakes the writer of the status, refresh the writer of volumes.
	dirty, refresh chan struct{}
	// stopping ends when the pod is to end, hurry when it is to end at once, deleted when its object is to go.
	stopping    context.Context
	stop        context.CancelCauseFunc
	hurry       context.Context
	rush        context.CancelFunc
	deleted     context.Context
	markDeleted context.CancelFunc
	// done and vanished, of the worker and its object, are guarded by the agent's mutex.
	done, vanished bool

	// writing lets one at a time write the status.
	writing    sync.Mutex
	mutex      sync.Mutex
	pod        *v1.Pod
	units      []*unit
	address    string
	namespaces container.Namespaces
	// prepared is set once the pod has a network, initialized once its init containers are done.
	prepared, initialized bool
	// phase, reason and message are set when the pod has come to an end.
	phase           v1.PodPhase
	reason, message string
	// deadline is when a deleted pod must have ended, by the grace that was given.
	deadline   time.Time
	graceGiven int64
	written    *v1.PodStatus
}

func newWorker(a *Agent, pod *v1.Pod, hostAddress string) *worker {
	folder := filepath.Join(a.cfg.Folder, "volumes", string(pod.UID))
	w := &worker{
		agent: a, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, hostAddress: hostAddress, pod: pod,
		folder: folder, logs: filepath.Join(a.cfg.Folder, "pods", pod.Namespace+"_"+pod.Name),
		volumes: volume.NewSet(a.volumeSources(), filepath.Join(folder, "volumes"), pod),
		dirty:   make(chan struct{}, 1), refresh: make(chan struct{}, 1),
	}
	w.stopping, w.stop = context.WithCancelCause(context.Background())
	w.hurry, w.rush = context.WithCancel(context.Background())
	w.deleted, w.markDeleted = context.WithCancel(context.Background())
	for i := range pod.Spec.InitContainers {
		w.units = append(w.units, newUnit(w, &pod.Spec.InitContainers[i], i, kindOfInit(&pod.Spec.InitContainers[i])))
	}
	for i := range pod.Spec.Containers {
		w.units = append(w.units, newUnit(w, &pod.Spec.Containers[i], i, mainContainer))
	}
	return w
}

// update takes notice of a change of the pod, of which its deletion is the one that matters most.
func (w *worker) update(pod *v1.Pod) {
	w.mutex.Lock()
	changed := w.pod.ResourceVersion != pod.ResourceVersion
	w.pod = pod
	ending := pod.DeletionTimestamp
	if grace := pod.DeletionGracePeriodSeconds; ending != nil && grace != nil && (w.deadline.IsZero() || w.graceGiven != *grace) {
		// From now on: the time in the object has whole seconds only.
		given := time.Duration(*grace) * time.Second
		if !w.deadline.IsZero() || given == 0 {
			// Containers that end already have their old time.
			time.AfterFunc(given, w.rush)
		}
		w.deadline, w.graceGiven = time.Now().Add(given), *grace
	}
	w.mutex.Unlock()
	w.volumes.SetPod(pod)
	if ending != nil {
		w.stop(errDeleted)
		w.markDeleted()
	}
	if changed {
		signal(w.dirty)
		signal(w.refresh)
	}
}

// vanish ends a pod whose object is gone already.
func (w *worker) vanish() {
	w.stop(errDeleted)
	w.rush()
	w.markDeleted()
}

func (w *worker) ending() bool { return w.stopping.Err() != nil }

// run ends when the pod's object is gone, or with the cluster.
func (w *worker) run(ctx context.Context) {
	status := make(chan struct{})
	go w.writeStatuses(ctx, status)
	defer close(status)
	defer w.rush()

	release, err := w.prepare(ctx)
	if err == nil {
		keeping, stopKeeping := context.WithCancel(ctx)
		var keeper sync.WaitGroup
		keeper.Go(func() { w.keepVolumes(keeping) })
		w.live(ctx)
		stopKeeping()
		keeper.Wait()
	}
	if release != nil {
		release()
	}
	signal(w.dirty)
	select {
	case <-w.deleted.Done():
		w.discard(ctx)
	case <-ctx.Done():
	}
}

// prepare makes the pod's folders, network and volumes, and tries again until it can or the pod is to end.
func (w *worker) prepare(ctx context.Context) (release func(), err error) {
	if err := w.makeFolders(); err != nil {
		return nil, err
	}
	releaseNetwork, err := w.makeNetwork()
	if err != nil {
		return nil, err
	}
	release = func() {
		releaseNetwork()
		w.volumes.Remove()
		_ = os.RemoveAll(w.folder)
	}
	for {
		_, err := w.volumes.Write(ctx)
		if err == nil {
			return release, nil
		}
		w.event(v1.EventTypeWarning, "FailedMount", err.Error())
		select {
		case <-w.refresh:
		case <-time.After(retryEvery):
		case <-w.stopping.Done():
			return release, err
		case <-ctx.Done():
			return release, err
		}
	}
}

func (w *worker) makeFolders() error {
	// The logs of an earlier pod of the same name stay.
	for n := 1; exists(w.logs); n++ {
		earlier := w.logs + "." + strconv.Itoa(n)
		if exists(earlier) {
			continue
		}
		if err := os.Rename(w.logs, earlier); err != nil {
			return fmt.Errorf("keep the logs of an earlier pod: %w", err)
		}
	}
	for _, folder := range []string{w.logs, filepath.Join(w.folder, "volumes"), filepath.Join(w.folder, "termination")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make the pod's folders: %w", err)
		}
	}
	return nil
}

func (w *worker) makeNetwork() (release func(), err error) {
	pod := w.snapshot()
	var namespaces container.Namespaces
	address := w.hostAddress
	var closers []func()
	release = func() {
		for _, closer := range closers {
			closer()
		}
	}
	if !pod.Spec.HostNetwork {
		cfg := network.PodConfig{Hostname: hostname(pod), Sysctls: map[string]string{}}
		if pod.Spec.SecurityContext != nil {
			for _, sysctl := range pod.Spec.SecurityContext.Sysctls {
				cfg.Sysctls[sysctl.Name] = sysctl.Value
			}
		}
		made, err := w.agent.network.Add(cfg)
		if err != nil {
			w.event(v1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
			return release, err
		}
		closers = append(closers, made.Remove)
		if err := made.Publish(hostPorts(pod, w.hostAddress)); err != nil {
			w.event(v1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
			release()
			return func() {}, err
		}
		namespaces, address = made.Namespaces, made.Address
	}
	if pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		namespace, end, err := w.agent.cfg.Launcher.ProcessNamespace()
		if err != nil {
			release()
			return func() {}, err
		}
		closers = append([]func(){end}, closers...)
		namespaces.PID = namespace
	}
	w.mutex.Lock()
	w.namespaces, w.address, w.prepared = namespaces, address, true
	w.mutex.Unlock()
	signal(w.dirty)
	return release, w.writeNetworkFiles(pod, address)
}

// hostPorts are those that the pod's containers ask for; SCTP is not there.
func hostPorts(pod *v1.Pod, node string) []network.HostPort {
	var ports []network.HostPort
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range container.Ports {
			if port.HostPort == 0 || port.Protocol == v1.ProtocolSCTP {
				continue
			}
			address := node
			if port.HostIP != "" {
				address = port.HostIP
			}
			protocol := strings.ToLower(string(port.Protocol))
			ports = append(ports, network.HostPort{Address: address, Protocol: protocol, Port: port.HostPort, Into: port.ContainerPort})
		}
	}
	return ports
}

// keepVolumes brings volumes up to date when an object or the pod changed, and before a token expires.
func (w *worker) keepVolumes(ctx context.Context) {
	wait := time.Duration(0)
	for {
		select {
		case <-w.refresh:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		renewal, err := w.volumes.Write(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && w.ending():
			wait = time.Hour
		case err != nil:
			w.event(v1.EventTypeWarning, "FailedMount", err.Error())
			wait = retryEvery
		case renewal.IsZero():
			wait = time.Hour
		default:
			wait = max(time.Until(renewal), retryEvery)
		}
	}
}

// discard lets the object go, now that nothing of the pod is left.
func (w *worker) discard(ctx context.Context) {
	now := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(w.uid))}
	for w.snapshot().DeletionTimestamp != nil {
		w.flush(ctx)
		err := w.agent.cfg.Client.CoreV1().Pods(w.namespace).Delete(ctx, w.name, options)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || !pause(ctx, retryEvery/4) {
			return
		}
	}
}

func (w *worker) snapshot() *v1.Pod {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.pod
}

func (w *worker) event(kind, reason, message string) {
	w.agent.recorder.Event(w.snapshot(), kind, reason, message)
}

func (w *worker) processes() []ContainerProcess {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var all []ContainerProcess
	for _, unit := range w.units {
		process := ContainerProcess{Container: unit.spec.Name, Restarts: unit.restarts}
		if unit.process != nil {
			process.Pid = unit.process.HostPid
		}
		all = append(all, process)
	}
	return all
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
