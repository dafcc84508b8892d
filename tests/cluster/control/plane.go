package control

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"haptic.rs/cluster/network"
)

// The ports of the control plane inside the cluster's network.
const (
	APIServerPort = 6443
	etcdClient    = "http://127.0.0.1:2379"
	etcdPeer      = "http://127.0.0.1:2380"
)

// Config is what a control plane depends on.
type Config struct {
	// Folder is the cluster's; certificates, data and logs are below it.
	Folder string
	// Program is the path of this program, run again for each component.
	Program string
	// Assets is a folder with binaries of etcd and kube-apiserver to run instead of the built-in ones, or empty.
	Assets string
	// Node is the name that kube-proxy runs under.
	Node string
	PKI  *PKI
	// Say tells the user one line.
	Say func(string)
}

// Plane is the control plane's processes.
type Plane struct {
	cfg       Config
	processes []*Process
	byName    map[string]*Process
	// outage is when the API server was stopped, in nanoseconds of Unix time, 0 while it is not.
	outage atomic.Int64
}

// New describes a control plane; nothing runs yet.
func New(cfg Config) (*Plane, error) {
	logs := filepath.Join(cfg.Folder, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of logs: %w", err)
	}
	p := &Plane{cfg: cfg, byName: map[string]*Process{}}
	if err := p.writeFiles(); err != nil {
		return nil, err
	}
	for _, component := range []struct {
		name string
		args []string
	}{
		{"etcd", p.etcdFlags()},
		{"kube-apiserver", p.apiServerFlags()},
		{"kube-controller-manager", p.controllerManagerFlags()},
		{"kube-scheduler", p.schedulerFlags()},
		{"kube-proxy", p.proxyFlags()},
		{"coredns", []string{"-conf", p.path("Corefile")}},
	} {
		command := append(p.binary(component.name), component.args...)
		process := NewProcess(component.name, command, logs, cfg.Say)
		p.processes = append(p.processes, process)
		p.byName[component.name] = process
	}
	return p, nil
}

// Process finds a component by its name, with or without `kube-`.
func (p *Plane) Process(name string) (*Process, error) {
	for _, candidate := range []string{name, "kube-" + name} {
		if process, ok := p.byName[candidate]; ok {
			return process, nil
		}
	}
	names := make([]string, 0, len(p.processes))
	for _, process := range p.processes {
		names = append(names, process.Name)
	}
	return nil, fmt.Errorf("no component %q; there are %s", name, strings.Join(names, ", "))
}

// Kubeconfig is the path of the configuration for clients inside the cluster's network.
func (p *Plane) Kubeconfig() string { return p.path("inside.kubeconfig") }

// StartServers starts etcd and the API server, and waits until that is ready.
func (p *Plane) StartServers(ctx context.Context) error {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := p.byName[name].Start(); err != nil {
			return err
		}
	}
	return p.WaitReady(ctx)
}

// StartClients starts what needs the API server.
func (p *Plane) StartClients() error {
	for _, process := range p.processes[2:] {
		if err := process.Start(); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until the API server is ready.
func (p *Plane) WaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		// Only asks whether it is ready, on this machine's loopback.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	url := fmt.Sprintf("https://127.0.0.1:%d/readyz", APIServerPort)
	last := "no answer yet"
	for {
		answer, err := client.Get(url)
		if err == nil {
			body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			last = string(body)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready (%s); its log is %s", strings.TrimSpace(last), p.byName["kube-apiserver"].Log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends all components, the latest started first.
func (p *Plane) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for i := len(p.processes) - 1; i >= 0; i-- {
		// Nothing of the cluster outlives this; a clean end of what only reads and waits would cost seconds.
		p.processes[i].Stop(ctx, syscall.SIGKILL)
	}
}

func (p *Plane) binary(name string) []string {
	if p.cfg.Assets != "" && (name == "etcd" || name == "kube-apiserver") {
		return []string{filepath.Join(p.cfg.Assets, name)}
	}
	return []string{p.cfg.Program, "component", name}
}

func (p *Plane) path(name string) string { return filepath.Join(p.cfg.Folder, name) }

func (p *Plane) etcdFlags() []string {
	return []string{
		"--data-dir=" + p.path("etcd"), "--unsafe-no-fsync=true",
		"--listen-client-urls=" + etcdClient, "--advertise-client-urls=" + etcdClient, "--listen-peer-urls=" + etcdPeer,
	}
}

func (p *Plane) apiServerFlags() []string {
	pki := p.cfg.PKI
	return []string{
		"--etcd-servers=" + etcdClient, "--bind-address=0.0.0.0", "--advertise-address=" + network.Gateway,
		fmt.Sprintf("--secure-port=%d", APIServerPort), "--service-cluster-ip-range=" + network.ServiceRange,
		"--authorization-mode=RBAC", "--allow-privileged=true", "--enable-aggregator-routing=true",
		"--tls-cert-file=" + pki.Certificate("apiserver"), "--tls-private-key-file=" + pki.Key("apiserver"),
		"--client-ca-file=" + pki.Certificate("ca"),
		"--kubelet-client-certificate=" + pki.Certificate("apiserver-kubelet-client"),
		"--kubelet-client-key=" + pki.Key("apiserver-kubelet-client"),
		"--kubelet-certificate-authority=" + pki.Certificate("ca"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki.PublicKey("service-accounts"),
		"--service-account-signing-key-file=" + pki.Key("service-accounts"),
		// The controller that would take the taint away is not run.
		"--disable-admission-plugins=TaintNodesByCondition",
		// As some distributions have it: who owns an object so that it blocks a deletion must be allowed to.
		"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		"--audit-policy-file=" + p.path("audit-policy.yaml"), "--audit-log-path=" + p.path("logs/audit.log"),
		// An answer is given only once it is written down; 1,024 MB are more than a cluster of tests lives to see.
		"--audit-log-mode=blocking", "--audit-log-maxsize=1024",
		"--cert-dir=" + p.path("pki"), "--profiling=false",
		// Else a clean end waits a minute for watches to end by themselves.
		"--shutdown-send-retry-after=true", "--shutdown-delay-duration=0s",
	}
}

func (p *Plane) controllerManagerFlags() []string {
	return []string{
		"--kubeconfig=" + p.Kubeconfig(), "--leader-elect=false", "--use-service-account-credentials=false",
		"--service-account-private-key-file=" + p.cfg.PKI.Key("service-accounts"),
		"--root-ca-file=" + p.cfg.PKI.Certificate("ca"), "--bind-address=127.0.0.1",
		// No cloud, no disks, and a node that is this process: it is there as long as anything is.
		"--controllers=*,-node-ipam-controller,-node-lifecycle-controller,-persistentvolume-attach-detach-controller,-persistentvolume-binder-controller",
		"--kube-api-qps=200", "--kube-api-burst=400", "--cert-dir=" + p.path("pki"),
		// Tests watch endpoints follow pods.
		"--endpointslice-updates-batch-period=0s", "--endpoint-updates-batch-period=0s",
	}
}

func (p *Plane) schedulerFlags() []string {
	return []string{
		"--kubeconfig=" + p.Kubeconfig(), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--kube-api-qps=200", "--kube-api-burst=400", "--cert-dir=" + p.path("pki"),
	}
}

func (p *Plane) proxyFlags() []string {
	return []string{
		"--kubeconfig=" + p.Kubeconfig(), "--proxy-mode=nftables", "--hostname-override=" + p.cfg.Node,
		"--cluster-cidr=" + network.PodRange, "--nodeport-addresses=" + network.PodRange,
		// Parameters of the machine's kernel, which are not this network's to set.
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		"--iptables-min-sync-period=100ms", "--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249",
	}
}
