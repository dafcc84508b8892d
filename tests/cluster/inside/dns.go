package inside

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"haptic.rs/cluster/network"
)

// announceDNS makes the Service of CoreDNS, which is a process beside the pods and serves at the gateway's address.
func announceDNS(ctx context.Context, client kubernetes.Interface) error {
	// The API server makes its namespaces a moment after it is ready.
	for {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the namespace %s: %w", metav1.NamespaceSystem, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	labels := map[string]string{"k8s-app": "kube-dns"}
	udp, tcp, port := v1.ProtocolUDP, v1.ProtocolTCP, int32(53)
	nameUDP, nameTCP := "dns", "dns-tcp"
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: metav1.NamespaceSystem, Labels: labels},
		Spec: v1.ServiceSpec{ClusterIP: network.DNSService, Ports: []v1.ServicePort{
			{Name: nameUDP, Protocol: udp, Port: port}, {Name: nameTCP, Protocol: tcp, Port: port},
		}},
	}
	if _, err := client.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the Service of the DNS: %w", err)
	}
	ready := true
	slice := &discovery.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Namespace: service.Namespace, Labels: map[string]string{
			discovery.LabelServiceName: service.Name, discovery.LabelManagedBy: "haptic-cluster",
		}},
		AddressType: discovery.AddressTypeIPv4,
		Endpoints:   []discovery.Endpoint{{Addresses: []string{network.Gateway}, Conditions: discovery.EndpointConditions{Ready: &ready}}},
		Ports:       []discovery.EndpointPort{{Name: &nameUDP, Protocol: &udp, Port: &port}, {Name: &nameTCP, Protocol: &tcp, Port: &port}},
	}
	if _, err := client.DiscoveryV1().EndpointSlices(service.Namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the endpoint of the DNS: %w", err)
	}
	return nil
}
