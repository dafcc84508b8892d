// Package command is the outer side: what the user calls. It checks the machine, opens the doors, and starts the
// cluster in namespaces of its own.
package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"haptic.rs/cluster/control"
	"haptic.rs/cluster/image"
	"haptic.rs/cluster/inside"
	"haptic.rs/cluster/network"
)

// How an invocation ended: one that cannot run here, and one that went wrong.
const (
	exitCannot = 2
	exitFailed = 1
)

// The longest path that a Unix socket can have.
const longestSocket = 107

// What a cluster makes in its folder; the next one there starts anew.
var clusterFiles = []string{
	"Corefile", "audit-policy.yaml", "control.sock", "etcd", "inside.kubeconfig", "kubeconfig", "logs", "pid", "pki", "pods", "run", "volumes",
}

type upFlags struct {
	folder, images string
	nodes          int
	detach         bool
}

// Up starts a cluster and stays until it ends, or with --detach until it is ready.
func Up(args []string) int {
	var f upFlags
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.StringVar(&f.folder, "dir", "", "folder of the cluster (required)")
	flags.StringVar(&f.images, "images", "", "JSON file that maps names of images to programs")
	flags.IntVar(&f.nodes, "nodes", 1, "how many nodes")
	flags.BoolVar(&f.detach, "detach", false, "leave the cluster running once it is ready")
	if err := flags.Parse(args); err != nil {
		return exitCannot
	}
	cfg, err := f.config()
	if err != nil {
		return cannot(err)
	}
	// Where administrators' programs are; the path of some shells of root lacks them.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return cannot(err)
	}
	if err := checkMachine(); err != nil {
		return cannot(err)
	}
	if err := makeRoom(cfg.Folder); err != nil {
		return cannot(err)
	}
	if f.detach {
		return upDetached(cfg, args)
	}
	return upHere(cfg)
}

func cannot(err error) int {
	fmt.Fprintln(os.Stderr, "haptic-cluster: "+err.Error())
	return exitCannot
}

func (f upFlags) config() (inside.Config, error) {
	var cfg inside.Config
	if f.folder == "" {
		return cfg, errors.New("name a folder for the cluster: --dir DIR")
	}
	if f.nodes < 1 || f.nodes > network.MostNodes {
		return cfg, fmt.Errorf("--nodes must be from 1 to %d", network.MostNodes)
	}
	folder, err := filepath.Abs(f.folder)
	if err != nil {
		return cfg, err
	}
	program, err := os.Executable()
	if err != nil {
		return cfg, fmt.Errorf("find this program: %w", err)
	}
	cfg = inside.Config{
		Folder: folder, Nodes: f.nodes, Program: program, Pod: filepath.Join(filepath.Dir(program), "haptic-pod"),
		Assets: os.Getenv("KUBEBUILDER_ASSETS"),
	}
	if socket := control.Socket(folder); len(socket) > longestSocket {
		return cfg, fmt.Errorf("the path %s is longer than the %d characters of a socket's: choose a shorter --dir", socket, longestSocket)
	}
	if f.images != "" {
		if cfg.Images, err = filepath.Abs(f.images); err != nil {
			return cfg, err
		}
	}
	if _, err := image.Load(cfg.Images, nil); err != nil {
		return cfg, err
	}
	return cfg, checkPrograms(cfg)
}

// makeRoom takes away what an earlier cluster left in the folder.
func makeRoom(folder string) error {
	// Also one that is still starting, and answers nothing yet.
	if runningPid(folder) != 0 {
		return fmt.Errorf("a cluster runs in %s; end it first: haptic-cluster down --dir %s", folder, folder)
	}
	if err := os.MkdirAll(filepath.Join(folder, "logs"), 0o755); err != nil {
		return fmt.Errorf("make the folder of the cluster: %w", err)
	}
	for _, name := range clusterFiles {
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("take away what an earlier cluster left: %w", err)
		}
	}
	return os.MkdirAll(filepath.Join(folder, "logs"), 0o755)
}

func upHere(cfg inside.Config) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var files []*os.File
	for range inside.Descriptors {
		file, err := openDoor()
		if err != nil {
			return cannot(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		return cannot(err)
	}
	cmd := exec.Command(cfg.Pod, "first", strconv.Itoa(inside.Descriptors), cfg.Program, "inside", string(encoded))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		// However this process ends, the cluster ends with it. The main goroutine is locked to the main thread, whose
		// end is the one that counts.
		Pdeathsig: syscall.SIGKILL, Setsid: true,
	}
	if err := cmd.Start(); err != nil {
		return cannot(fmt.Errorf("make namespaces: %w; run as root on a machine that allows new namespaces", err))
	}
	if err := os.WriteFile(filepath.Join(cfg.Folder, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		_ = cmd.Process.Kill()
		return cannot(fmt.Errorf("write the cluster's process id: %w", err))
	}
	stopped := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stopped()
	err = cmd.Wait()
	_ = os.Remove(filepath.Join(cfg.Folder, "pid"))
	var failure *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failure) && failure.ExitCode() > 0:
		return failure.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "haptic-cluster: the cluster ended: "+err.Error())
		return exitFailed
	}
}

// openDoor opens a port of this machine, for this machine alone, that is handed to the cluster.
func openDoor() (*os.File, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port on this machine: %w", err)
	}
	defer listener.Close()
	return listener.(*net.TCPListener).File()
}

// upDetached starts `up` once more, apart from this terminal, and waits until it is ready.
func upDetached(cfg inside.Config, args []string) int {
	// Beside the logs, which the started one takes away first. A pipe would break when this process ends.
	log, err := os.Create(filepath.Join(cfg.Folder, "cluster.log"))
	if err != nil {
		return cannot(err)
	}
	defer log.Close()
	var rest []string
	for _, arg := range args {
		if strings.TrimLeft(arg, "-") != "detach" && !strings.HasPrefix(strings.TrimLeft(arg, "-"), "detach=") {
			rest = append(rest, arg)
		}
	}
	cmd := exec.Command(cfg.Program, append([]string{"up"}, rest...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return cannot(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return cannot(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		err = cmd.Wait()
		fmt.Fprintf(os.Stderr, "haptic-cluster: the cluster did not start (%v):\n", err)
		said, _ := os.ReadFile(log.Name())
		_, _ = os.Stderr.Write(said)
		return exitFailed
	}
	fmt.Print(line)
	return 0
}
