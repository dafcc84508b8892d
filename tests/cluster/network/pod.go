package network

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
)

// Pods hands out addresses and namespaces.
type Pods struct {
	mutex sync.Mutex
	next  int
	used  map[int]bool
}

// Pod is the network of one pod.
type Pod struct {
	Address    string
	Namespaces container.Namespaces
	pods       *Pods
	offset     int
	outside    string
	// published are ports of nodes, as elements of the map of them.
	published []string
}

// PodConfig is what a pod's network depends on.
type PodConfig struct {
	Hostname string
	// Sysctls of the network namespace, by name.
	Sysctls map[string]string
}

// Add makes the namespaces of a pod, with an address of its own.
func (p *Pods) Add(cfg PodConfig) (*Pod, error) {
	offset, err := p.take()
	if err != nil {
		return nil, err
	}
	pod := &Pod{
		Address: fmt.Sprintf("10.88.%d.%d", offset>>8, offset&0xff),
		pods:    p, offset: offset, outside: fmt.Sprintf("veth%d", offset),
	}
	outside, err := os.Open("/proc/self/ns/net")
	if err != nil {
		pod.Remove()
		return nil, fmt.Errorf("open the cluster's network namespace: %w", err)
	}
	defer outside.Close()
	err = container.OnOwnThread(func() error { return pod.unshare(cfg, int(outside.Fd())) })
	if err == nil {
		err = pod.plugIn()
	}
	if err == nil {
		err = addHairpin(pod.Address)
	}
	if err != nil {
		pod.Remove()
		return nil, fmt.Errorf("make the network of a pod: %w", err)
	}
	return pod, nil
}

// Remove frees the address and the namespaces, which go with the last process in them.
func (p *Pod) Remove() {
	p.withdraw()
	if link, err := netlink.LinkByName(p.outside); err == nil {
		_ = netlink.LinkDel(link)
		_ = removeHairpin(p.Address)
	}
	for _, file := range []*os.File{p.Namespaces.Net, p.Namespaces.IPC, p.Namespaces.UTS} {
		_ = file.Close()
	}
	p.pods.mutex.Lock()
	defer p.pods.mutex.Unlock()
	delete(p.pods.used, p.offset)
}

// unshare runs on a thread of its own, which is in the pod's namespaces from then on.
func (p *Pod) unshare(cfg PodConfig, outside int) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	if err := syscall.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("set the host name %q: %w", cfg.Hostname, err)
	}
	for name, file := range map[string]**os.File{"net": &p.Namespaces.Net, "ipc": &p.Namespaces.IPC, "uts": &p.Namespaces.UTS} {
		opened, err := os.Open("/proc/thread-self/ns/" + name)
		if err != nil {
			return fmt.Errorf("open the %s namespace: %w", name, err)
		}
		*file = opened
	}
	// As container runtimes have it: any user of the pod may listen on any port, and ping.
	sysctls := map[string]string{"net/ipv4/ip_unprivileged_port_start": "0", "net/ipv4/ping_group_range": "0 2147483647"}
	for key, value := range cfg.Sysctls {
		sysctls[key] = value
	}
	for key, value := range sysctls {
		if err := setKernel(key, value); err != nil {
			return err
		}
	}
	if err := up("lo"); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "eth0"
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: p.outside, PeerNamespace: netlink.NsFd(outside)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add a pair of interfaces: %w", err)
	}
	return p.route()
}

// route gives the pod's end its address. It is alone in its network and reaches even its neighbours by the gateway:
// an answer that took the short way over the bridge would not be translated back to the address of a Service.
func (p *Pod) route() error {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find the pod's interface: %w", err)
	}
	address, err := netlink.ParseAddr(p.Address + "/32")
	if err != nil {
		return fmt.Errorf("parse the pod's address: %w", err)
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return fmt.Errorf("set the pod's address: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the pod's interface up: %w", err)
	}
	gateway := net.ParseIP(Gateway)
	direct := &net.IPNet{IP: gateway, Mask: net.CIDRMask(32, 32)}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: direct, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("route to the gateway: %w", err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway}); err != nil {
		return fmt.Errorf("route by the gateway: %w", err)
	}
	return nil
}

// plugIn joins the outer end to the bridge.
func (p *Pod) plugIn() error {
	outer, err := netlink.LinkByName(p.outside)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", p.outside, err)
	}
	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find the bridge %s: %w", bridge, err)
	}
	if err := netlink.LinkSetMaster(outer, master); err != nil {
		return fmt.Errorf("join %s to the bridge: %w", p.outside, err)
	}
	if err := netlink.LinkSetUp(outer); err != nil {
		return fmt.Errorf("set %s up: %w", p.outside, err)
	}
	return nil
}

// take gives the free address that was not used for the longest time, so that a late packet meets nobody new.
func (p *Pods) take() (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.used == nil {
		p.used = map[int]bool{}
	}
	const last = 1<<16 - 2
	for range last {
		if p.next < firstPodOffset || p.next > last {
			p.next = firstPodOffset
		}
		offset := p.next
		p.next++
		if !p.used[offset] && offset&0xff != 0 && offset&0xff != 0xff {
			p.used[offset] = true
			return offset, nil
		}
	}
	return 0, fmt.Errorf("no address is left in %s", PodRange)
}
