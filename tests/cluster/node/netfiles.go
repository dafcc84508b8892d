package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"haptic.rs/cluster/network"
)

// The files of /etc that a pod has of its own.
var networkFiles = []string{"resolv.conf", "hosts", "hostname"}

// The longest host name of a Linux machine.
const longestHostname = 63

func hostname(pod *v1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > longestHostname {
		name = strings.TrimRight(name[:longestHostname], "-.")
	}
	return name
}

func (w *worker) writeNetworkFiles(pod *v1.Pod, address string) error {
	contents := map[string]string{
		"hostname":    hostname(pod) + "\n",
		"hosts":       hosts(pod, address),
		"resolv.conf": resolvConf(pod),
	}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(w.folder, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the pod's %s: %w", name, err)
		}
	}
	return nil
}

func hosts(pod *v1.Pod, address string) string {
	var text strings.Builder
	text.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	name := hostname(pod)
	if pod.Spec.Subdomain != "" {
		fmt.Fprintf(&text, "%s\t%s.%s.%s.svc.%s\t%s\n", address, name, pod.Spec.Subdomain, pod.Namespace, network.ClusterDomain, name)
	} else {
		fmt.Fprintf(&text, "%s\t%s\n", address, name)
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return text.String()
}

func resolvConf(pod *v1.Pod) string {
	var servers, search, options []string
	// The machine's own resolver is not reachable from the cluster, so the policy Default means the cluster's as well.
	if pod.Spec.DNSPolicy != v1.DNSNone {
		servers = []string{network.DNSService}
		search = []string{pod.Namespace + ".svc." + network.ClusterDomain, "svc." + network.ClusterDomain, network.ClusterDomain}
		// A name server that is one process answers at once; an answer that is lost is asked for again before a client gives up.
		options = []string{"ndots:5", "timeout:1", "attempts:5"}
	}
	if cfg := pod.Spec.DNSConfig; cfg != nil {
		servers = append(servers, cfg.Nameservers...)
		search = append(search, cfg.Searches...)
		for _, option := range cfg.Options {
			text := option.Name
			if option.Value != nil {
				text += ":" + *option.Value
			}
			// The last of two options of one name counts.
			options = append(options, text)
		}
	}
	var text strings.Builder
	if len(search) > 0 {
		fmt.Fprintf(&text, "search %s\n", strings.Join(search, " "))
	}
	for _, server := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", server)
	}
	if len(options) > 0 {
		fmt.Fprintf(&text, "options %s\n", strings.Join(options, " "))
	}
	return text.String()
}
