package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: web
        image: demo:1
        ports: [{containerPort: 8080, name: http}]
        readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
`

// get asks by the cluster's proxy and returns the name of the pod that answered.
func (n *namespace) get(address string) (pod string, err error) {
	proxy, err := url.Parse(n.Proxy)
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	answer, err := client.Get(address)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", answer.StatusCode, body)
	}
	var demo struct{ Pod string }
	return demo.Pod, json.Unmarshal(body, &demo)
}

func TestPortOfANodeLeadsToThePodThatHasIt(t *testing.T) {
	n := own(t)
	manifest := `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  containers: [{name: web, image: demo, env: [{name: PORT, value: "%d"}], ports: [{containerPort: %[3]d, hostPort: 8088}]}]
`
	node := n.field("nodes", "{.items[1].metadata.name}")
	address := n.field("node/"+node, "{.status.addresses[?(@.type=='InternalIP')].address}")
	answers := func(want string) {
		n.eventually(15*time.Second, func() string {
			if pod, err := n.get("http://" + address + ":8088/"); err != nil || pod != want {
				return fmt.Sprintf("%q answers, want %s: %v", pod, want, err)
			}
			return ""
		})
	}
	n.apply(fmt.Sprintf(manifest, "first", node, 8080))
	answers("first")
	n.kubectl("delete", "pod", "first")
	n.apply(fmt.Sprintf(manifest, "second", node, 8090))
	answers("second")
}

func (n *namespace) awaitAnswersOf(pods int) {
	n.Helper()
	n.awaitField(10*time.Second, "deployment/web", "{.status.readyReplicas}", fmt.Sprint(pods))
	n.eventually(10*time.Second, func() string {
		seen := map[string]bool{}
		for range 20 * pods {
			pod, err := n.get("http://web." + n.name + ".svc/")
			if err != nil {
				return err.Error()
			}
			seen[pod] = true
		}
		if len(seen) != pods {
			return fmt.Sprintf("%d pods answered, want %d", len(seen), pods)
		}
		return ""
	})
}

func TestServiceFollowsItsDeployment(t *testing.T) {
	n := own(t)
	began := time.Now()
	n.apply(web)
	n.awaitAnswersOf(2)
	t.Logf("two pods answered %s after they were applied", time.Since(began).Round(10*time.Millisecond))
	n.kubectl("scale", "deployment", "web", "--replicas=4")
	n.awaitAnswersOf(4)
	n.kubectl("scale", "deployment", "web", "--replicas=1")
	n.awaitAnswersOf(1)
	node := n.field("node/node-1", "{.status.addresses[0].address}")
	port := n.field("service/web", "{.spec.ports[0].nodePort}")
	if _, err := n.get("http://" + node + ":" + port); err != nil {
		t.Errorf("by the node's port: %v", err)
	}
	n.kubectl("delete", "deployment", "web")
	n.eventually(10*time.Second, func() string {
		if pods := n.field("pods", "{.items[*].metadata.name}"); pods != "" {
			return "pods are left: " + pods
		}
		return ""
	})
}

func TestPodsReachServicesAndThemselvesByName(t *testing.T) {
	n := own(t)
	// Not where kube-proxy runs.
	n.apply(strings.Replace(strings.Replace(web, "replicas: 2", "replicas: 1", 1), "containers:", "nodeName: node-2\n      containers:", 1))
	n.awaitAnswersOf(1)
	pod := n.field("pods", "{.items[0].metadata.name}")
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - name: client
    image: shell
    args: ["curl -sS --max-time 5 http://web/ && curl -sS --max-time 5 http://web.` + n.name + `.svc.cluster.local/"]
`)
	n.awaitField(30*time.Second, "pod/client", "{.status.phase}", "Succeeded")
	if log := n.log("client", "client"); strings.Count(log, `"pod":"`+pod) != 2 {
		t.Errorf("the client got %s", log)
	}
	if output := n.try("", "exec", pod, "--", "curl", "-sS", "--max-time", "5", "http://web/"); !strings.Contains(output, pod) {
		t.Errorf("by its own Service the pod got %s", output)
	}
}

func TestUnreadyPodLeavesItsService(t *testing.T) {
	n := own(t)
	n.apply(strings.ReplaceAll(web, "httpGet: {path: /healthz, port: http}", "exec: {command: [test, '!', -e, /tmp/unready]}"))
	n.awaitAnswersOf(2)
	pod := n.field("pods", "{.items[0].metadata.name}")
	n.kubectl("exec", pod, "--", "touch", "/tmp/unready")
	n.awaitField(10*time.Second, "pod/"+pod, `{.status.conditions[?(@.type=="Ready")].status}`, "False")
	n.awaitAnswersOf(1)
	n.kubectl("exec", pod, "--", "rm", "/tmp/unready")
	n.awaitAnswersOf(2)
}

func TestDeletedPodIsNoEndpointWhileItEnds(t *testing.T) {
	n := own(t)
	n.apply(`
apiVersion: v1
kind: Pod
metadata: {name: slow, labels: {app: slow}}
spec:
  terminationGracePeriodSeconds: 8
  containers: [{name: slow, image: shell, args: ["trap 'sleep 5; exit' TERM; while :; do sleep 0.1; done"]}]
---
apiVersion: v1
kind: Service
metadata: {name: slow}
spec: {selector: {app: slow}, ports: [{port: 80}]}
`)
	ready := "{.items[0].endpoints[0].conditions.ready}"
	n.awaitField(10*time.Second, "endpointslices", ready, "true")
	n.kubectl("delete", "pod", "slow", "--wait=false")
	n.awaitField(3*time.Second, "endpointslices", ready, "false")
	if phase := n.field("pod/slow", "{.status.phase}"); phase != "Running" {
		t.Errorf("the pod is %q", phase)
	}
}
