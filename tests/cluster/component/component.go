// Package component holds the programs of the control plane that are linked into this one: each runs as a process
// of its own, started by `haptic-cluster component NAME FLAGS…`.
//
// Called by main for the child processes; the control package writes their flags.
package component

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	// JSON logs and metrics of client-go, as the upstream main packages link them.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

var programs = map[string]func(args []string) int{
	"etcd":                    etcd,
	"coredns":                 coreDNS,
	"kube-apiserver":          command(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	"kube-controller-manager": command(func() *cobra.Command { return controllermanager.NewControllerManagerCommand() }),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(func() *cobra.Command { return proxy.NewProxyCommand() }),
}

// Run runs the named component in this process until it ends, and returns its exit code.
func Run(name string, args []string) int {
	program, ok := programs[name]
	if !ok {
		names := make([]string, 0, len(programs))
		for known := range programs {
			names = append(names, known)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "no component %q; there are %s\n", name, strings.Join(names, ", "))
		return 2
	}
	return program(args)
}

func command(build func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		cmd := build()
		cmd.SetArgs(args)
		return cli.Run(cmd)
	}
}
