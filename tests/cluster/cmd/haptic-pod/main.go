// haptic-pod is the small helper of haptic-cluster: the first process of a process namespace, the launcher of
// containers and the demo backend. Nobody calls it by hand.
package main

import (
	"fmt"
	"os"

	"haptic.rs/cluster/container/launch"
	"haptic.rs/cluster/demo"
)

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 1 && args[0] == "launch":
		os.Exit(launch.Run())
	case len(args) == 1 && args[0] == "pause":
		os.Exit(launch.First("0", nil))
	case len(args) >= 3 && args[0] == "first":
		os.Exit(launch.First(args[1], args[2:]))
	case len(args) == 1 && args[0] == "demo":
		os.Exit(demo.Run())
	}
	fmt.Fprintln(os.Stderr, "usage: haptic-pod launch | pause | first DESCRIPTORS PROGRAM ARGS… | demo")
	os.Exit(2)
}
