package control

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"haptic.rs/cluster/network"
)

// Answers of the cluster's own names are never cached for long, so that tests see a change at once; other names do not
// exist, as the cluster is alone in its network.
const corefile = `%[1]s:53 in-addr.arpa:53 ip6.arpa:53 {
    bind %[2]s
    errors
    kubernetes %[1]s in-addr.arpa ip6.arpa {
        kubeconfig %[3]s
        pods insecure
        ttl 1
    }
}
.:53 {
    bind %[2]s
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
`

// Who asked for what, and whether it was allowed: of pods alone, as the components are administrators.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`

func (p *Plane) writeFiles() error {
	inside := fmt.Sprintf("https://127.0.0.1:%d", APIServerPort)
	if err := p.WriteKubeconfig(p.Kubeconfig(), inside); err != nil {
		return err
	}
	if err := os.WriteFile(p.path("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("write the policy of the audit log: %w", err)
	}
	content := fmt.Sprintf(corefile, network.ClusterDomain, network.Gateway, p.Kubeconfig())
	if err := os.WriteFile(p.path("Corefile"), []byte(content), 0o644); err != nil {
		return fmt.Errorf("write the configuration of CoreDNS: %w", err)
	}
	return nil
}

// WriteKubeconfig writes the administrator's configuration for the server, with all certificates in it.
func (p *Plane) WriteKubeconfig(path, server string) error {
	cfg := clientcmdapi.NewConfig()
	var contents [3][]byte
	for i, file := range []string{p.cfg.PKI.Certificate("ca"), p.cfg.PKI.Certificate("admin"), p.cfg.PKI.Key("admin")} {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("write a kubeconfig: %w", err)
		}
		contents[i] = content
	}
	cfg.Clusters["haptic"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: contents[0]}
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]}
	cfg.Contexts["haptic"] = &clientcmdapi.Context{Cluster: "haptic", AuthInfo: "admin"}
	cfg.CurrentContext = "haptic"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
