// haptic-cluster is a real Kubernetes on one machine without a container engine, for the tests of haptic. README.md
// says how to use it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"haptic.rs/cluster/command"
	"haptic.rs/cluster/component"
	"haptic.rs/cluster/demo"
	"haptic.rs/cluster/inside"
)

const usage = `usage:
  haptic-cluster up --dir DIR [--images FILE.json] [--nodes N] [--detach]   start a cluster
  haptic-cluster down --dir DIR                                            end one that was detached
  haptic-cluster ctl --dir DIR COMMAND                                     control a running one
  haptic-cluster kubectl ARGS…                                             kubectl of the same version
  haptic-cluster demo                                                      the demo backend, on $PORT
`

// The cluster is told of the end of the thread that started it, which must be the one that lives longest. Only here is
// it certain that this runs on the main thread.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) < 2 || os.Args[1] != "up" {
		runtime.UnlockOSThread()
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	switch name, rest := args[0], args[1:]; {
	case name == "up":
		return command.Up(rest)
	case name == "down":
		return command.Down(rest)
	case name == "ctl":
		return command.Ctl(rest)
	case name == "kubectl":
		return component.Kubectl(rest)
	case name == "demo":
		return demo.Run()
	case name == "component" && len(rest) > 0:
		return component.Run(rest[0], rest[1:])
	case name == "inside" && len(rest) == 1:
		var cfg inside.Config
		if err := json.Unmarshal([]byte(rest[0]), &cfg); err != nil {
			fmt.Fprintf(os.Stderr, "read the cluster's configuration: %v\n", err)
			return 2
		}
		return inside.Run(cfg)
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
}
