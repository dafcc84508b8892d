// Package inside is the cluster's own process in its namespaces: it starts everything, keeps it running and ends it.
//
//	up (outside) ──▶ haptic-pod first ──▶ inside ──▶ control plane, nodes, doors
package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"haptic.rs/cluster/container"
	"haptic.rs/cluster/control"
	"haptic.rs/cluster/door"
	"haptic.rs/cluster/image"
	"haptic.rs/cluster/network"
	"haptic.rs/cluster/node"
)

// Config travels from the outside as JSON.
type Config struct {
	Folder string `json:"folder"`
	Images string `json:"images"`
	Nodes  int    `json:"nodes"`
	// Program and Pod are the paths of the two binaries.
	Program string `json:"program"`
	Pod     string `json:"pod"`
	Assets  string `json:"assets"`
}

// Ready is the line that says how to reach the cluster.
type Ready struct {
	Ready      bool   `json:"ready"`
	Kubeconfig string `json:"kubeconfig"`
	APIServer  string `json:"apiServer"`
	Proxy      string `json:"proxy"`
	Folder     string `json:"dir"`
}

// The file descriptors that come from outside.
const (
	APIDescriptor   = 3
	ProxyDescriptor = 4
	Descriptors     = 2
)

// How long the cluster may take to get ready.
const startTimeout = 2 * time.Minute

type cluster struct {
	cfg     Config
	started time.Time
	pki     *control.PKI
	plane   *control.Plane
	agent   *node.Agent
	api     net.Listener
	proxy   net.Listener
}

// Run runs the cluster until it is told to end.
func Run(cfg Config) int {
	c := &cluster{cfg: cfg, started: time.Now()}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := c.start(ctx, stop)
	if err == nil {
		<-ctx.Done()
	}
	stopped := ctx.Err() != nil
	if c.plane != nil {
		c.plane.Stop()
	}
	_ = os.Remove(control.Socket(cfg.Folder))
	if err != nil && !stopped {
		c.say("error: " + err.Error())
		return 1
	}
	c.say("ended")
	return 0
}

func (c *cluster) say(line string) {
	fmt.Fprintf(os.Stderr, "cluster: %5.1f s  %s\n", time.Since(c.started).Seconds(), line)
}

func (c *cluster) start(ctx context.Context, stop func()) error {
	limit, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	images, err := image.Load(c.cfg.Images, c.builtIn())
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.cfg.Folder, "logs", "node.log"))
	if err != nil {
		return fmt.Errorf("make the log of the nodes: %w", err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	if c.api, err = inherit(APIDescriptor); err != nil {
		return err
	}
	if c.proxy, err = inherit(ProxyDescriptor); err != nil {
		return err
	}
	run, err := c.mountOwn()
	if err != nil {
		return err
	}
	if err := network.SetUp(c.cfg.Nodes); err != nil {
		return err
	}
	nodes := map[string]string{}
	for number := range c.cfg.Nodes {
		nodes[nodeName(number)] = network.NodeAddress(number)
	}
	if c.pki, err = control.NewPKI(filepath.Join(c.cfg.Folder, "pki"), nodes); err != nil {
		return err
	}
	c.plane, err = control.New(control.Config{
		Folder: c.cfg.Folder, Program: c.cfg.Program, Assets: c.cfg.Assets, Node: nodeName(0), PKI: c.pki, Say: c.say,
	})
	if err != nil {
		return err
	}
	c.say("network and certificates are made; starting etcd and kube-apiserver")
	if err := c.plane.StartServers(limit); err != nil {
		return err
	}
	c.say("kube-apiserver is ready; starting controllers, scheduler, proxy, DNS and node")
	if err := c.plane.StartClients(); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := announceDNS(limit, client); err != nil {
		return err
	}
	cfg := node.Config{
		Client: client, Nodes: nodes, Images: images, Launcher: container.Launcher{Binary: c.cfg.Pod},
		Folder: c.cfg.Folder, Run: run, HostProc: filepath.Join(run, "proc"), Say: c.say,
	}
	c.agent, err = node.Run(ctx, cfg, c.serveNodes(nodes))
	if err != nil {
		return err
	}
	ready, err := c.openDoors()
	if err != nil {
		return err
	}
	pids := func(namespace, pod string) (any, error) { return c.agent.Processes(namespace, pod) }
	if err := c.plane.ServeSocket(ctx, pids, stop); err != nil {
		return err
	}
	c.say("the node is registered; waiting for kube-proxy and DNS")
	if err := c.awaitServices(limit, client); err != nil {
		return err
	}
	c.say("ready")
	return json.NewEncoder(os.Stdout).Encode(ready)
}

func nodeName(number int) string { return fmt.Sprintf("node-%d", number+1) }

// builtIn are the images that need nothing of the machine.
func (c *cluster) builtIn() map[string]image.Image {
	return map[string]image.Image{
		"demo": {
			Entrypoint: []string{"/haptic-pod", "demo"}, User: 65532,
			Binds: map[string]string{"/haptic-pod": c.cfg.Pod},
		},
		"coredns": {
			Entrypoint: []string{"/haptic-cluster", "component", "coredns"},
			Binds:      map[string]string{"/haptic-cluster": c.cfg.Program},
		},
	}
}

func inherit(descriptor uintptr) (net.Listener, error) {
	file := os.NewFile(descriptor, "listener")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("inherit a listener: %w", err)
	}
	return listener, nil
}

// mountOwn makes a folder that exists in the cluster only. Below it, proc keeps showing the machine's processes, while
// /proc shows the cluster's own.
func (c *cluster) mountOwn() (string, error) {
	run := filepath.Join(c.cfg.Folder, "run")
	if err := os.MkdirAll(run, 0o755); err != nil {
		return "", fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("run", run, "tmpfs", 0, "mode=755"); err != nil {
		return "", fmt.Errorf("mount the cluster's folder: %w", err)
	}
	outer := filepath.Join(run, "proc")
	if err := os.Mkdir(outer, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", outer, err)
	}
	if err := unix.Mount("/proc", outer, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("keep the machine's /proc: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "", fmt.Errorf("mount the cluster's /proc: %w", err)
	}
	return run, nil
}

func (c *cluster) client() (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.plane.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the cluster's own kubeconfig: %w", err)
	}
	cfg = rest.AddUserAgent(cfg, "haptic-cluster-node")
	// Hundreds of pods may start at once.
	cfg.QPS, cfg.Burst = 500, 1000
	cfg.Dial = dialPatiently
	return kubernetes.NewForConfig(cfg)
}

// dialPatiently waits while the API server is stopped. The watches of the nodes go on as soon as it is back, instead of
// after the growing delays of failed tries.
func dialPatiently(ctx context.Context, kind, address string) (net.Conn, error) {
	dialer := &net.Dialer{KeepAlive: 30 * time.Second}
	for {
		connection, err := dialer.DialContext(ctx, kind, address)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return connection, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cluster) serveNodes(nodes map[string]string) func(*node.Agent) error {
	return func(agent *node.Agent) error {
		for name, address := range nodes {
			files := node.Certificates{Authority: c.pki.Certificate("ca"), Certificate: c.pki.Certificate(name), Key: c.pki.Key(name)}
			if err := agent.Serve(address, files); err != nil {
				return err
			}
		}
		return nil
	}
}

func (c *cluster) openDoors() (Ready, error) {
	ready := Ready{
		Ready: true, Folder: c.cfg.Folder, Kubeconfig: filepath.Join(c.cfg.Folder, "kubeconfig"),
		APIServer: "https://" + c.api.Addr().String(), Proxy: "http://" + c.proxy.Addr().String(),
	}
	if err := c.plane.WriteKubeconfig(ready.Kubeconfig, ready.APIServer); err != nil {
		return ready, err
	}
	go door.Forward(c.api, fmt.Sprintf("127.0.0.1:%d", control.APIServerPort))
	go func() {
		if err := door.NewProxy().Serve(c.proxy); err != nil && !errors.Is(err, net.ErrClosed) {
			c.say("proxy: " + err.Error())
		}
	}()
	return ready, nil
}

// awaitServices waits until a name is answered by the Service of the DNS, and pods of the namespace default can have
// a service account.
func (c *cluster) awaitServices(ctx context.Context, client kubernetes.Interface) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, kind, network.DNSService+":53")
	}}
	name := "kubernetes.default.svc." + network.ClusterDomain + "."
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := resolver.LookupHost(attempt, name)
		cancel()
		if err == nil {
			_, err = client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("services do not answer (%w); look at %s/logs/kube-proxy.log and coredns.log there", err, c.cfg.Folder)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
