//go:build !linux

package reader

import (
	"net"
	"time"
)

// tune makes the kernel notice a peer that vanished. A failure only means that it is noticed later.
func tune(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 8 * time.Second, Count: 6})
	}
}
