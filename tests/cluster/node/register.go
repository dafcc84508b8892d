package node

import (
	"context"
	"fmt"
	"runtime"

	vknode "github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/version"
)

// KubeletPort is the port of the nodes' API inside the cluster.
const KubeletPort = 10250

// Nothing is measured, so that only counts that nobody reaches keep the scheduler from placing a pod.
var capacity = v1.ResourceList{
	v1.ResourceCPU:              resource.MustParse("256"),
	v1.ResourceMemory:           resource.MustParse("1Ti"),
	v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	v1.ResourcePods:             resource.MustParse("10000"),
}

// register makes the Node objects and keeps them alive until the context ends.
func (a *Agent) register(ctx context.Context) error {
	for name, address := range a.cfg.Nodes {
		controller, err := vknode.NewNodeController(
			vknode.NaiveNodeProvider{}, nodeObject(name, address), a.cfg.Client.CoreV1().Nodes(),
			vknode.WithNodeEnableLeaseV1(nodeutil.NodeLeaseV1Client(a.cfg.Client), vknode.DefaultLeaseDuration),
		)
		if err != nil {
			return fmt.Errorf("describe the node %s: %w", name, err)
		}
		go func() {
			for ctx.Err() == nil {
				if err := controller.Run(ctx); err != nil && ctx.Err() == nil {
					a.cfg.Say(fmt.Sprintf("node %s: %v", name, err))
					return
				}
			}
		}()
		select {
		case <-controller.Ready():
		case <-controller.Done():
			return fmt.Errorf("register the node %s: %w", name, controller.Err())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func nodeObject(name, address string) *v1.Node {
	now := metav1.Now()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: runtime.GOARCH,
			v1.LabelTopologyZone: "zone-" + name, v1.LabelTopologyRegion: "local",
		}},
		Status: v1.NodeStatus{
			Phase: v1.NodeRunning, Capacity: capacity, Allocatable: capacity,
			Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}, {Type: v1.NodeHostName, Address: name}},
			DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: KubeletPort}},
			NodeInfo: v1.NodeSystemInfo{
				KernelVersion:  kernelVersion(),
				KubeletVersion: version.Get().GitVersion, OperatingSystem: "linux", Architecture: runtime.GOARCH,
				OSImage: "haptic test cluster", ContainerRuntimeVersion: "process://1",
			},
		},
	}
	for _, kind := range []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable} {
		condition := v1.NodeCondition{Type: kind, Status: v1.ConditionFalse, Reason: "AsEver", LastHeartbeatTime: now, LastTransitionTime: now}
		if kind == v1.NodeReady {
			condition.Status, condition.Reason, condition.Message = v1.ConditionTrue, "KubeletReady", "pods are processes here"
		}
		node.Status.Conditions = append(node.Status.Conditions, condition)
	}
	return node
}

func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
