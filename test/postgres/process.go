package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// account is the user that runs Postgres; nil when it is our own.
type account struct{ uid, gid int }

// unprivileged finds the account to run Postgres under: it refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{os.Getenv("STREAMBED_PG_USER"), "postgres", "nobody"} {
		if name == "" {
			continue
		}
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			continue
		}
		return &account{uid, gid}, nil
	}
	return nil, fmt.Errorf("Postgres does not run as root and neither a user postgres nor nobody exists: name one in STREAMBED_PG_USER")
}

// attributes give a process its account and a process group of its own, so that an interrupt typed at our terminal
// reaches us alone.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// process is a running postmaster.
type process struct {
	cmd *exec.Cmd
	// exited is closed once the postmaster has been waited for; err is its result.
	exited chan struct{}
	err    error
}

// launch starts cmd on a thread of its own: the kernel's parent-death signal goes by thread, so the thread must live as
// long as the process does.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// reaper is a shell that outlives us by a moment: when our end of its pipe closes, for whatever reason, it ends the
// postmaster named in the folder's pid file and removes the folder. So a killed test leaves nothing behind.
type reaper struct {
	cmd  *exec.Cmd
	pipe *os.File
}

const reaperScript = `
while read -r line; do [ "$line" = keep ] && exit 0; done
if [ -r "$1/data/postmaster.pid" ]; then
	read -r pid < "$1/data/postmaster.pid"
	kill -QUIT "$pid" 2>/dev/null
	n=0
	while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" 2>/dev/null && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
fi
[ "$2" = remove ] && rm -rf "$1"
`

func startReaper(dir string, remove bool) (*reaper, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	what := "leave"
	if remove {
		what = "remove"
	}
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "reaper", dir, what)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	return &reaper{cmd, w}, nil
}

// dismiss ends the reaper without letting it act.
func (r *reaper) dismiss() {
	_, _ = r.pipe.WriteString("keep\n")
	r.pipe.Close()
	_ = r.cmd.Wait()
}
