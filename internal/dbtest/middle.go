package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
)

// Middle is a private proxy or pooler in front of one server.
type Middle struct {
	*Instance
	program    string // and its package
	args       []string
	config     func() string // depends on the port
	credential *syscall.Credential
}

// StartHAProxy starts an HAProxy that passes connections on to addr, and closes those on which
// nothing came from one side for the idle time. It ends with the test.
func StartHAProxy(tb TB, addr string, idle time.Duration) *Middle {
	tb.Helper()
	return start(tb, func(ctx context.Context) (*Middle, error) {
		m := &Middle{program: "haproxy", args: []string{"-db", "-f"}}
		m.config = func() string { // as Debian's own, where the times are 50 s
			return fmt.Sprintf("defaults\n mode tcp\n timeout connect 5s\n timeout client %[1]dms\n"+
				" timeout server %[1]dms\nlisten server\n bind %[2]s\n server one %[3]s\n",
				idle.Milliseconds(), m.Addr(), addr)
		}
		return m, m.open(ctx, func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Addr())
			if err != nil {
				return err
			}
			return c.Close()
		})
	})
}

// StartPgBouncer starts a PgBouncer in front of the PostgreSQL at addr, in pool mode session or
// transaction. It ends with the test.
func StartPgBouncer(tb TB, addr, mode string) *Middle {
	tb.Helper()
	return start(tb, func(ctx context.Context) (*Middle, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		m := &Middle{program: "pgbouncer"}
		m.config = func() string {
			return fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"+
				"listen_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n", host, port, m.port, mode)
		}
		return m, m.open(ctx, func(ctx context.Context) error {
			return withDB("pgx", m.PostgresDSN("postgres"), func(db *sql.DB) error { return db.PingContext(ctx) })
		})
	})
}

// PostgresDSN returns the URL of a database behind it, for the superuser.
func (m *Middle) PostgresDSN(database string) string {
	return "postgres://postgres@" + m.Addr() + "/" + database + "?sslmode=disable"
}

// Close ends it and removes its files. Closing twice is nil.
func (m *Middle) Close() error {
	if m == nil || m.Instance == nil {
		return nil
	}
	return m.Instance.Close()
}

// open starts it. An error leaves nothing behind.
func (m *Middle) open(ctx context.Context, ready func(context.Context) error) (err error) {
	if m.Instance, err = newInstance("", m.program, ""); err != nil {
		return err
	}
	m.spec, m.ready = m.describe, ready
	if err := m.setup(ctx); err != nil {
		return errors.Join(fmt.Errorf("private %s: %w", m.program, err), m.Close())
	}
	return nil
}

func (m *Middle) setup(ctx context.Context) (err error) {
	if _, err := m.root.Find(m.program); err != nil {
		return fmt.Errorf("%w; next step: apt-get install %s", err, m.program)
	}
	if os.Geteuid() == 0 { // PgBouncer refuses to run as root
		if m.credential, err = m.root.User("nobody"); err != nil {
			return err
		}
		if err := os.Chown(m.dir, int(m.credential.Uid), int(m.credential.Gid)); err != nil {
			return err
		}
	}
	return m.boot(ctx)
}

func (m *Middle) describe() proc.Spec {
	path, _ := m.root.Find(m.program) // setup has found it
	config := m.path("config")
	_ = os.WriteFile(config, []byte(m.config()), 0o644) // it names the file that it cannot read
	return proc.Spec{
		Path: path, Args: append(m.args[:len(m.args):len(m.args)], config), Dir: m.dir, Output: m.path("log"),
		Credential: m.credential,
	}
}
