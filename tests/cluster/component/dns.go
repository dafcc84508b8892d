package component

import (
	"flag"
	"os"

	"github.com/coredns/coredns/coremain"
	// The plugins of the Corefile that the control package writes, no more: the full list links every cloud's SDK.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func coreDNS(args []string) int {
	os.Args = append([]string{"coredns"}, args...)
	flag.CommandLine.Init("coredns", flag.ExitOnError)
	coremain.Run()
	return 0
}
