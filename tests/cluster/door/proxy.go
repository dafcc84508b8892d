package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"haptic.rs/cluster/network"
)

// Proxy is an HTTP proxy into the cluster's network, for CONNECT and for plain requests. Names are the cluster's:
// `web`, `web.shop`, `web.shop.svc` and the full ones.
type Proxy struct {
	resolver *net.Resolver
	forward  *httputil.ReverseProxy
}

// NewProxy makes a proxy that resolves names by the cluster's DNS.
func NewProxy() *Proxy {
	p := &Proxy{resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, kind, net.JoinHostPort(network.DNSService, "53"))
	}}}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = r.In.URL
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Proxy-Connection")
			// The reverse proxy takes these away; they are the client's, and a test may want to send them.
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = values
				}
			}
		},
		Transport: &http.Transport{
			// A test means the connection it asks for, not one that is left of another request: none is kept.
			DialContext: p.dial, MaxIdleConnsPerHost: -1, DisableCompression: true,
		},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "cluster proxy: "+err.Error(), http.StatusBadGateway)
		},
	}
	return p
}

// Serve answers on the listener until it is closed.
func (p *Proxy) Serve(listener net.Listener) error {
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}

// ServeHTTP answers one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	if r.URL.Host == "" {
		http.Error(w, "cluster proxy: this is a proxy; ask for a full URL", http.StatusBadRequest)
		return
	}
	p.forward.ServeHTTP(w, r)
}

func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	inner, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		http.Error(w, "cluster proxy: "+err.Error(), http.StatusBadGateway)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		_ = inner.Close()
		http.Error(w, "cluster proxy: CONNECT needs HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	outer, buffered, err := hijacker.Hijack()
	if err != nil {
		_ = inner.Close()
		return
	}
	if _, err := io.WriteString(outer, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = inner.Close()
		_ = outer.Close()
		return
	}
	join(early{outer, buffered.Reader}, inner)
}

// early is a connection of which the first bytes were read into a buffer already.
type early struct {
	net.Conn
	reader *bufio.Reader
}

func (e early) Read(p []byte) (int, error) { return e.reader.Read(p) }

func (e early) CloseWrite() error {
	if half, ok := e.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (p *Proxy) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	addresses := []string{host}
	if net.ParseIP(host) == nil {
		if addresses, err = p.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	var failures []error
	for _, address := range addresses {
		connection, err := dialer.DialContext(ctx, kind, net.JoinHostPort(address, port))
		if err == nil {
			return connection, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (p *Proxy) resolve(ctx context.Context, host string) ([]string, error) {
	var last string
	for _, name := range candidates(host) {
		addresses, err := p.resolver.LookupHost(ctx, name)
		if err == nil {
			return addresses, nil
		}
		last = err.Error()
		// The error names the machine's DNS server, which was not asked.
		var failure *net.DNSError
		if errors.As(err, &failure) {
			last = failure.Err
		}
	}
	return nil, fmt.Errorf("resolve %s in the cluster: %s", host, last)
}

// candidates are the full names that a name may stand for, as if a pod in the namespace `default` had asked.
func candidates(host string) []string {
	host = strings.TrimSuffix(host, ".")
	if strings.HasSuffix(host, "."+network.ClusterDomain) {
		return []string{host + "."}
	}
	domain := "." + network.ClusterDomain + "."
	return []string{host + ".default.svc" + domain, host + ".svc" + domain, host + domain, host + "."}
}
