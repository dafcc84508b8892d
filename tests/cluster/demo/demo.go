// Package demo is the backend of the image `demo`: it answers every request with what it was asked, and by whom.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// The largest body that is echoed.
const bodyLimit = 16 << 20

// Answer is what the demo backend says about a request.
type Answer struct {
	Pod       string      `json:"pod"`
	Namespace string      `json:"namespace"`
	Host      string      `json:"host"`
	Method    string      `json:"method"`
	Path      string      `json:"path"`
	Query     string      `json:"query"`
	Protocol  string      `json:"protocol"`
	Client    string      `json:"client"`
	Headers   http.Header `json:"headers"`
	Body      string      `json:"body,omitempty"`
}

// Run serves on $PORT, 8080 by default, until it is told to end; what is being answered then is answered in full.
func Run() int {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Addr: ":" + port, Handler: Handler(), ReadHeaderTimeout: 10 * time.Second, Protocols: protocols}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Printf("demo: serving on port %s\n", port)
	select {
	case err := <-failed:
		fmt.Fprintf(os.Stderr, "demo: serve on port %s: %v\n", port, err)
		return 1
	case <-ctx.Done():
	}
	// Whoever routes to this pod learns of its end at about the same time; give it a moment.
	late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(late); err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintf(os.Stderr, "demo: end: %v\n", err)
		return 1
	}
	return 0
}

// Handler answers /healthz, /slow?ms=MILLISECONDS, /status?code=CODE and everything else.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("/slow", slow)
	mux.HandleFunc("/status", status)
	mux.HandleFunc("/", echo)
	return mux
}

func slow(w http.ResponseWriter, r *http.Request) {
	wait, err := strconv.Atoi(r.URL.Query().Get("ms"))
	if err != nil || wait < 0 {
		http.Error(w, "ms must be a count of milliseconds", http.StatusBadRequest)
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(wait) * time.Millisecond):
		echo(w, r)
	}
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.URL.Query().Get("code"))
	if err != nil || code < 200 || code > 599 {
		http.Error(w, "code must be an HTTP status from 200 to 599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		http.Error(w, "the body could not be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer := Answer{
		Pod: os.Getenv("POD_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), Host: r.Host, Method: r.Method,
		Path: r.URL.Path, Query: r.URL.RawQuery, Protocol: r.Proto, Client: r.RemoteAddr, Headers: r.Header,
		Body: string(body),
	}
	if answer.Pod == "" {
		answer.Pod, _ = os.Hostname()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
