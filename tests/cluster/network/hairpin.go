package network

import (
	"fmt"
	"os/exec"
	"strings"
)

// A packet of a pod to itself by a Service must come back through the cluster's namespace, or its answer is not
// translated. kube-proxy sees to that for the pods of its own node; as it runs once, this does for all.
const hairpinTable = `
table ip haptic {
	set pods { type ipv4_addr . ipv4_addr; }
	chain postrouting {
		type nat hook postrouting priority srcnat - 10;
		ip saddr . ip daddr @pods masquerade
	}
}
`

func setUpHairpins() error {
	return nft(hairpinTable)
}

func addHairpin(address string) error {
	return nft(fmt.Sprintf("add element ip haptic pods { %s . %s }\n", address, address))
}

func removeHairpin(address string) error {
	return nft(fmt.Sprintf("delete element ip haptic pods { %s . %s }\n", address, address))
}

func nft(rules string) error {
	program, err := exec.LookPath("nft")
	if err != nil {
		program = "/usr/sbin/nft"
	}
	command := exec.Command(program, "-f", "-")
	command.Stdin = strings.NewReader(rules)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("set rules with nft: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}
