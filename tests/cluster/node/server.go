package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"haptic.rs/cluster/container"
)

// Certificates are the files that a node's API is served with.
type Certificates struct {
	Authority, Certificate, Key string
}

// Serve serves the kubelet's API, for logs, exec and port-forward, at the node's address.
func (a *Agent) Serve(address string, files Certificates) error {
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return fmt.Errorf("load the node's certificate: %w", err)
	}
	authority, err := os.ReadFile(files.Authority)
	if err != nil {
		return fmt.Errorf("load the node's authority: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		return fmt.Errorf("load the node's authority: %s holds no certificate", files.Authority)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	listener, err := tls.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(KubeletPort)), cfg)
	if err != nil {
		return fmt.Errorf("serve the node's API: %w", err)
	}
	server := &http.Server{ReadHeaderTimeout: 30 * time.Second, Handler: api.PodHandler(api.PodHandlerConfig{
		RunInContainer: a.runInContainer, GetContainerLogs: a.containerLogs, PortForward: a.portForward,
		GetPods: a.allPods, GetPodsFromKubernetes: a.allPods,
		StreamIdleTimeout: 4 * time.Hour, StreamCreationTimeout: 30 * time.Second,
	}, true)}
	go func() { _ = server.Serve(listener) }()
	return nil
}

func (a *Agent) allPods(context.Context) ([]*v1.Pod, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	pods := make([]*v1.Pod, 0, len(a.workers))
	for _, worker := range a.workers {
		pods = append(pods, worker.snapshot())
	}
	return pods, nil
}

func (a *Agent) unit(namespace, pod, name string) (*unit, error) {
	worker, err := a.find(namespace, pod)
	if err != nil {
		return nil, errdefs.AsNotFound(err)
	}
	for _, unit := range worker.units {
		if unit.spec.Name == name {
			return unit, nil
		}
	}
	return nil, errdefs.NotFoundf("pod %s/%s has no container %q", namespace, pod, name)
}

func (a *Agent) portForward(_ context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	worker, err := a.find(namespace, pod)
	if err != nil {
		return errdefs.AsNotFound(err)
	}
	worker.mutex.Lock()
	inside := worker.namespaces.Net
	worker.mutex.Unlock()
	var connection net.Conn
	err = container.OnOwnThread(func() error {
		if inside != nil {
			if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
		}
		connection, err = net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), 10*time.Second)
		return err
	})
	if err != nil {
		return fmt.Errorf("forward to port %d of %s/%s: %w", port, namespace, pod, err)
	}
	defer connection.Close()
	ends := make(chan error, 2)
	go func() { _, err := io.Copy(connection, stream); ends <- err }()
	go func() { _, err := io.Copy(stream, connection); ends <- err }()
	if err := <-ends; err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
