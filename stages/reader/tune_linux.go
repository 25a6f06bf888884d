package reader

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// silence is how long the source's kernel may leave us without an answer before the connection counts as lost. It does
// not depend on the walsender, which may be busy decoding for much longer.
const silence = time.Minute

// tune makes the kernel notice a peer that vanished, both while we wait for data and while our own is not acknowledged.
// A failure only means that it is noticed later.
func tune(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: silence / 4, Interval: silence / 8, Count: 6})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
}
