package network

import "fmt"

// HostPort is a port of a node that leads to one of a pod.
type HostPort struct {
	Address string
	// Protocol is `tcp` or `udp`.
	Protocol   string
	Port, Into int32
}

// Connections to a port of a node that a pod has for its own. Before kube-proxy's rules, as with container runtimes.
const hostPortTable = `
table ip haptic {
	map hostports { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
	chain prerouting {
		type nat hook prerouting priority dstnat - 10;
		meta l4proto { tcp, udp } dnat ip addr . port to ip daddr . meta l4proto . th dport map @hostports
	}
	chain output {
		type nat hook output priority -110;
		meta l4proto { tcp, udp } dnat ip addr . port to ip daddr . meta l4proto . th dport map @hostports
	}
}
`

func setUpHostPorts() error {
	return nft(hostPortTable)
}

// Publish gives the pod ports of its node, until it is removed. The scheduler sees to it that no two pods ask a node for
// the same.
func (p *Pod) Publish(ports []HostPort) error {
	for _, port := range ports {
		key := fmt.Sprintf("%s . %s . %d", port.Address, port.Protocol, port.Port)
		if err := nft(fmt.Sprintf("add element ip haptic hostports { %s : %s . %d }\n", key, p.Address, port.Into)); err != nil {
			return fmt.Errorf("publish port %d of the node: %w", port.Port, err)
		}
		p.published = append(p.published, key)
	}
	return nil
}

func (p *Pod) withdraw() {
	for _, key := range p.published {
		_ = nft(fmt.Sprintf("delete element ip haptic hostports { %s }\n", key))
	}
	p.published = nil
}
