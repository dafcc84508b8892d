// Package node is the cluster's nodes: what a kubelet and a container runtime do together, with processes of this
// machine. virtual-kubelet keeps the Node objects and serves the kubelet's API; the lives of pods are this package's.
//
//	pods of the API ──▶ Agent ──▶ one worker a pod ──▶ container.Start ──▶ processes
//	                                     └──▶ status of the pod
package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"haptic.rs/cluster/container"
	"haptic.rs/cluster/image"
	"haptic.rs/cluster/network"
	"haptic.rs/cluster/volume"
)

// Config is what the nodes depend on.
type Config struct {
	Client kubernetes.Interface
	// Nodes are the addresses of the nodes by their names.
	Nodes  map[string]string
	Images *image.Table
	// Launcher starts containers.
	Launcher container.Launcher
	// Folder is the cluster's; the logs of pods are in its folder pods.
	Folder string
	// Run is an empty folder that exists only inside the cluster.
	Run string
	// HostProc is where the outermost proc file system is mounted.
	HostProc string
	// Say tells the user one line.
	Say func(string)
}

// Agent is all nodes of the cluster.
type Agent struct {
	cfg        Config
	network    network.Pods
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
	services   corelisters.ServiceLister
	recorder   record.EventRecorder

	mutex   sync.Mutex
	workers map[types.UID]*worker
}

// Run runs pods until the context ends. It returns once the nodes are registered, before which serve must have begun to
// serve their API.
func Run(ctx context.Context, cfg Config, serve func(*Agent) error) (*Agent, error) {
	a := &Agent{cfg: cfg, workers: map[types.UID]*worker{}}
	if err := os.MkdirAll(a.rootMount(), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of roots: %w", err)
	}
	events := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: 200, QPS: 10})
	events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: cfg.Client.CoreV1().Events("")})
	a.recorder = events.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet"})

	factory := informers.NewSharedInformerFactory(cfg.Client, 0)
	core := factory.Core().V1()
	a.configMaps, a.secrets, a.services = core.ConfigMaps().Lister(), core.Secrets().Lister(), core.Services().Lister()
	for kind, informer := range map[string]cache.SharedIndexInformer{"ConfigMap": core.ConfigMaps().Informer(), "Secret": core.Secrets().Informer()} {
		if _, err := informer.AddEventHandler(a.contents(kind)); err != nil {
			return nil, fmt.Errorf("watch %ss: %w", kind, err)
		}
	}
	services := core.Services().Informer()
	factory.Start(ctx.Done())
	synced := []cache.InformerSynced{core.ConfigMaps().Informer().HasSynced, core.Secrets().Informer().HasSynced, services.HasSynced}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("list what pods refer to: %w", ctx.Err())
	}
	// Pods come last, so that a pod finds what it refers to.
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(a.pods(ctx)); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	if err := serve(a); err != nil {
		return nil, err
	}
	return a, a.register(ctx)
}

// rootMount is the folder that every container mounts its root on, seen by none of the others.
func (a *Agent) rootMount() string { return filepath.Join(a.cfg.Run, "root") }

func (a *Agent) pods(ctx context.Context) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.observe(ctx, object.(*v1.Pod)) },
		UpdateFunc: func(_, object any) { a.observe(ctx, object.(*v1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*v1.Pod); ok {
				if worker := a.worker(pod.UID); worker != nil {
					worker.vanish()
					a.forget(worker, func() { worker.vanished = true })
				}
			}
		},
	}
}

func (a *Agent) observe(ctx context.Context, pod *v1.Pod) {
	address, ours := a.cfg.Nodes[pod.Spec.NodeName]
	if !ours {
		return
	}
	a.mutex.Lock()
	current, known := a.workers[pod.UID]
	if !known && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
		current = newWorker(a, pod, address)
		a.workers[pod.UID] = current
		go func() {
			current.run(ctx)
			a.forget(current, func() { current.done = true })
		}()
	}
	a.mutex.Unlock()
	if current != nil {
		current.update(pod)
	}
}

// contents tells the pods that show an object in a volume that it changed.
func (a *Agent) contents(kind string) cache.ResourceEventHandler {
	changed := func(object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		named, ok := object.(interface {
			GetNamespace() string
			GetName() string
		})
		if !ok {
			return
		}
		a.mutex.Lock()
		defer a.mutex.Unlock()
		for _, worker := range a.workers {
			if worker.namespace == named.GetNamespace() && worker.volumes.Uses(kind, named.GetName()) {
				signal(worker.refresh)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed}
}

// forget notes that a worker is done or its object gone. Only with both is it forgotten: a late word of the object must
// not start the pod once more.
func (a *Agent) forget(w *worker, note func()) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	note()
	if w.done && w.vanished {
		delete(a.workers, w.uid)
	}
}

func (a *Agent) worker(uid types.UID) *worker {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.workers[uid]
}

// find finds a pod's worker by its name; of two that end and begin, the one that has not begun to end.
func (a *Agent) find(namespace, name string) (*worker, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var found *worker
	for _, worker := range a.workers {
		if worker.namespace == namespace && worker.name == name && (found == nil || !worker.ending()) {
			found = worker
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no pod %s/%s runs on a node of this cluster", namespace, name)
	}
	return found, nil
}

// ContainerProcess is a running container's main process.
type ContainerProcess struct {
	Container string `json:"container"`
	// Pid is the process id as seen outside of the cluster, 0 while the container does not run.
	Pid      int   `json:"pid"`
	Restarts int32 `json:"restarts"`
}

// Processes are the containers of the pod, with their processes.
func (a *Agent) Processes(namespace, name string) ([]ContainerProcess, error) {
	worker, err := a.find(namespace, name)
	if err != nil {
		return nil, err
	}
	return worker.processes(), nil
}

func (a *Agent) volumeSources() volume.Sources {
	return volume.Sources{Client: a.cfg.Client, ConfigMaps: a.configMaps, Secrets: a.secrets}
}

// signal wakes whoever waits on the channel, which has room for one.
func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// pause waits, or until the context ends, which it then says.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
