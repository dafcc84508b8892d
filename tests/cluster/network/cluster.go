// Package network makes the cluster's network inside its own namespace: one bridge, and for each pod a namespace that
// a pair of virtual interfaces joins to it.
//
//	pod's eth0 (10.88.x.y/32) ── veth ── br0 (10.88.0.1) ── kube-proxy's rules ── other pods, Services, this namespace
package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
)

// The cluster's addresses. They can be the same in every cluster, as each has a network of its own.
const (
	PodRange       = "10.88.0.0/16"
	ServiceRange   = "10.96.0.0/16"
	Gateway        = "10.88.0.1"
	FirstService   = "10.96.0.1"
	DNSService     = "10.96.0.10"
	ClusterDomain  = "cluster.local"
	bridge         = "br0"
	lastNodeOctet  = 9
	firstPodOffset = 10
)

// NodeAddress is the address of the node with the number, counted from 0.
func NodeAddress(number int) string {
	return fmt.Sprintf("10.88.0.%d", 1+number)
}

// MostNodes is how many nodes have an address.
const MostNodes = lastNodeOctet

// SetUp makes the network of the cluster in the current namespace, which must be a new one.
func SetUp(nodes int) error {
	for key, value := range map[string]string{
		"net/ipv4/ip_forward": "1",
		// Pods reach each other through this namespace, so that Services work; it shall not tell them a shorter way.
		"net/ipv4/conf/all/send_redirects":     "0",
		"net/ipv4/conf/default/send_redirects": "0",
		"net/ipv4/conf/all/rp_filter":          "0",
		"net/ipv4/conf/default/rp_filter":      "0",
	} {
		if err := setKernel(key, value); err != nil {
			return err
		}
	}
	// Where the kernel can filter what crosses a bridge: packets of a pod to itself by a Service would be lost in it.
	for _, key := range []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"} {
		if err := setKernel(key, "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := up("lo"); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = bridge
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return fmt.Errorf("add the bridge %s: %w", bridge, err)
	}
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find the bridge %s: %w", bridge, err)
	}
	for node := range nodes {
		address, err := netlink.ParseAddr(NodeAddress(node) + "/16")
		if err != nil {
			return fmt.Errorf("parse the address of node %d: %w", node, err)
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("give %s the address %s: %w", bridge, address, err)
		}
	}
	if err := up(bridge); err != nil {
		return err
	}
	_, services, err := net.ParseCIDR(ServiceRange)
	if err != nil {
		return fmt.Errorf("parse the range of Services: %w", err)
	}
	// kube-proxy's rules only see what has a route.
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: services, Src: net.ParseIP(Gateway)}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("route %s: %w", ServiceRange, err)
	}
	if err := setUpHairpins(); err != nil {
		return err
	}
	return setUpHostPorts()
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find the interface %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the interface %s up: %w", name, err)
	}
	return nil
}

// setKernel sets a kernel parameter of the current network namespace; parts are separated by slashes or dots.
func setKernel(key, value string) error {
	path := "/proc/sys/" + key
	if !strings.Contains(key, "/") {
		path = "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
	}
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s to %s: %w", key, value, err)
	}
	return nil
}
