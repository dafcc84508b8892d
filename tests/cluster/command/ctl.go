package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"haptic.rs/cluster/control"
)

const ctlUsage = `usage: haptic-cluster ctl --dir DIR COMMAND
  stop COMPONENT [TERM|KILL]   end a component, such as apiserver, and wait until it has ended
  start COMPONENT              start it again, with the same data and address
  components                   which components run
  pids NAMESPACE POD           the processes of a pod's containers, as seen on this machine
`

// Components may take this long to end or to be ready again.
const ctlTimeout = 90 * time.Second

// Ctl sends one control command to a running cluster and prints the answer, one line of JSON.
func Ctl(args []string) int {
	flags := flag.NewFlagSet("ctl", flag.ContinueOnError)
	folder := flags.String("dir", "", "folder of the cluster (required)")
	flags.Usage = func() { fmt.Fprint(os.Stderr, ctlUsage) }
	if err := flags.Parse(args); err != nil {
		return exitCannot
	}
	method, path, err := ctlRequest(flags.Args())
	if err != nil || *folder == "" {
		fmt.Fprint(os.Stderr, ctlUsage)
		return exitCannot
	}
	answer, err := ask(*folder, method, path, ctlTimeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "haptic-cluster: "+err.Error())
		return exitFailed
	}
	fmt.Print(answer)
	return 0
}

func ctlRequest(words []string) (method, path string, err error) {
	switch {
	case len(words) == 1 && words[0] == "components":
		return http.MethodGet, "/components", nil
	case len(words) == 2 && words[0] == "start":
		return http.MethodPost, "/components/" + url.PathEscape(words[1]) + "/start", nil
	case len(words) == 2 && words[0] == "stop":
		return http.MethodPost, "/components/" + url.PathEscape(words[1]) + "/stop", nil
	case len(words) == 3 && words[0] == "stop":
		return http.MethodPost, "/components/" + url.PathEscape(words[1]) + "/stop?signal=" + url.QueryEscape(words[2]), nil
	case len(words) == 3 && words[0] == "pids":
		query := url.Values{"namespace": {words[1]}, "pod": {words[2]}}
		return http.MethodGet, "/pids?" + query.Encode(), nil
	default:
		return "", "", errors.New("no such command")
	}
}

// Down ends a cluster and waits until nothing of it is left.
func Down(args []string) int {
	flags := flag.NewFlagSet("down", flag.ContinueOnError)
	folder := flags.String("dir", "", "folder of the cluster (required)")
	if err := flags.Parse(args); err != nil {
		return exitCannot
	}
	if *folder == "" {
		return cannot(errors.New("name the folder of the cluster: --dir DIR"))
	}
	pid := runningPid(*folder)
	if pid == 0 {
		fmt.Fprintf(os.Stderr, "haptic-cluster: no cluster runs in %s\n", *folder)
		return 0
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for start := time.Now(); runningPid(*folder) == pid; time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 15*time.Second {
			// All of the cluster dies with it.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return 0
}

// runningPid is the first process of the cluster in the folder, 0 when none runs.
func runningPid(folder string) int {
	content, err := os.ReadFile(filepath.Join(folder, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	// The number may be another process' by now.
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(command), "haptic-cluster\x00up\x00") {
		return 0
	}
	return pid
}

// ask sends a request to the control socket of the cluster in the folder.
func ask(folder, method, path string, timeout time.Duration) (string, error) {
	socket := control.Socket(folder)
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequest(method, "http://cluster"+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("no cluster answers in %s: %w", folder, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("read the cluster's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		var failure struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
			failure.Error = string(body)
		}
		return "", errors.New(failure.Error)
	}
	return string(body), nil
}
