package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
	"haptic.rs/cluster/inside"
)

// What kube-proxy calls.
var neededPrograms = []string{"nft", "conntrack"}

// checkMachine says what keeps a cluster from running here, with the next step.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster makes namespaces and mounts, for which it must be root: run this with sudo")
	}
	var missing []string
	for _, name := range neededPrograms {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("kube-proxy needs %s, not found in PATH: install the packages nftables and conntrack (tests/tools/install-cluster.sh does)", strings.Join(missing, " and "))
	}
	err := container.OnOwnThread(func() error {
		return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWPID)
	})
	if err != nil {
		return fmt.Errorf("this machine denies new namespaces (%w): run on a machine, or in a container, with the capability SYS_ADMIN", err)
	}
	return nil
}

func checkPrograms(cfg inside.Config) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster needs Linux, this is %s", runtime.GOOS)
	}
	if _, err := os.Stat(cfg.Pod); err != nil {
		return fmt.Errorf("haptic-pod must be beside haptic-cluster: run tests/tools/install-cluster.sh (%w)", err)
	}
	if cfg.Assets == "" {
		return nil
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(cfg.Assets, name)); err != nil {
			return fmt.Errorf("KUBEBUILDER_ASSETS must be a folder with etcd and kube-apiserver: correct or unset it (%w)", err)
		}
	}
	return nil
}
