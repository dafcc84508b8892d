package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Socket is the path of the control socket of the cluster in the folder.
func Socket(folder string) string { return filepath.Join(folder, "control.sock") }

// How long a component may take to end before it is killed.
const stopTimeout = 30 * time.Second

// Pids answers which processes a pod has.
type Pids func(namespace, pod string) (any, error)

// ServeSocket answers control commands until the context ends:
//
//	POST /components/NAME/stop?signal=TERM|KILL   waits until it has ended
//	POST /components/NAME/start                   waits until the API server is ready again
//	GET  /components
//	GET  /pids?namespace=NAMESPACE&pod=POD
//	POST /down
func (p *Plane) ServeSocket(ctx context.Context, pids Pids, down func()) error {
	path := Socket(p.cfg.Folder)
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("serve control commands: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /components/{name}/stop", answer(func(r *http.Request) (any, error) {
		process, err := p.Process(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		signals := map[string]syscall.Signal{"": syscall.SIGTERM, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}
		signal, ok := signals[r.URL.Query().Get("signal")]
		if !ok {
			return nil, fmt.Errorf("no signal %q; there are TERM and KILL", r.URL.Query().Get("signal"))
		}
		limit, cancel := context.WithTimeout(r.Context(), stopTimeout)
		defer cancel()
		p.stop(limit, process, signal)
		return map[string]any{"stopped": process.Name}, nil
	}))
	mux.HandleFunc("POST /components/{name}/start", answer(func(r *http.Request) (any, error) {
		process, err := p.Process(r.PathValue("name"))
		if err != nil {
			return nil, err
		}
		limit, cancel := context.WithTimeout(r.Context(), stopTimeout)
		defer cancel()
		return map[string]any{"started": process.Name}, p.startAgain(limit, process)
	}))
	mux.HandleFunc("GET /components", answer(func(*http.Request) (any, error) {
		running := map[string]bool{}
		for _, process := range p.processes {
			running[process.Name] = process.Pid() != 0
		}
		return running, nil
	}))
	mux.HandleFunc("GET /pids", answer(func(r *http.Request) (any, error) {
		return pids(r.URL.Query().Get("namespace"), r.URL.Query().Get("pod"))
	}))
	mux.HandleFunc("POST /down", answer(func(*http.Request) (any, error) {
		// After the answer.
		time.AfterFunc(50*time.Millisecond, down)
		return map[string]any{"down": true}, nil
	}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return nil
}

func answer(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		result, err := do(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			result = map[string]any{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(result)
	}
}
