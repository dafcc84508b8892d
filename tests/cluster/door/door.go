// Package door lets the machine outside reach into the cluster's network: by a port that is the API server's, and by
// an HTTP proxy for everything else. Both listen outside and connect inside.
package door

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

const dialTimeout = 10 * time.Second

// Forward hands every connection of the listener on to the address, until the listener is closed.
func Forward(listener net.Listener, address string) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	for {
		outer, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			inner, err := dialer.DialContext(context.Background(), "tcp", address)
			if err != nil {
				refuse(outer)
				return
			}
			join(outer, inner)
		}()
	}
}

// refuse resets the connection, as a closed port would do.
func refuse(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// join copies both ways until both have ended, and hands on the end of each direction on its own.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	oneWay := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if err != nil {
			// Cut off, not ended: neither side shall take what it has for all there is.
			refuse(to)
			refuse(from)
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { oneWay(a, b) })
	both.Go(func() { oneWay(b, a) })
	both.Wait()
	_ = a.Close()
	_ = b.Close()
}
