package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/internal/proc"
)

// appGrants is all that a service and its migrations need, without SUPER and
// READ_ONLY ADMIN, which would make read_only toothless.
const appGrants = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, LOCK TABLES, " +
	"CREATE TEMPORARY TABLES, CREATE VIEW, SHOW VIEW, TRIGGER, EXECUTE, CREATE ROUTINE, ALTER ROUTINE, PROCESS"

// MariaDBOptions of a private MariaDB; the zero value is a strict server that
// flushes its log at every commit.
type MariaDBOptions struct {
	// Flags are further flags of mariadbd, such as "--sql-mode=" for a server
	// that is not strict; they win over ours.
	Flags []string
	// ServerID makes it a server that can replicate, with a binary log: see
	// [MariaDBServer.Follow]. 0 means without.
	ServerID int
	// SemiSync makes it one of a pair for fail-overs, which starts read only: see
	// [MariaDBServer.Attach]. It wants a ServerID and MariaDB.
	SemiSync bool

	galera *galeraNode
}

// MariaDBServer is a private MariaDB, which starts in about a second, or a MySQL where the
// root of [EnvMySQLRoot] has that: see [MariaDBServer.Oracle].
type MariaDBServer struct {
	*Instance
	options MariaDBOptions
	program string // The server, inside the root.
	oracle  bool

	credential *syscall.Credential // nil: our own user
}

// StartMariaDB starts a private MariaDB and ends it, files and all, when the
// test ends.
func StartMariaDB(tb TB, options MariaDBOptions) *MariaDBServer {
	tb.Helper()
	return start(tb, func(ctx context.Context) (*MariaDBServer, error) { return NewMariaDB(ctx, "", options) })
}

// NewMariaDB is StartMariaDB for programs and TestMain. Its files are in a new
// folder under dir; "" means the system's temporary folder, which keeps the path
// of the Unix socket short enough. The caller calls Close.
func NewMariaDB(ctx context.Context, dir string, options MariaDBOptions) (*MariaDBServer, error) {
	i, err := newInstance(dir, "mariadb", EnvMySQLRoot)
	if err != nil {
		return nil, err
	}
	s := &MariaDBServer{Instance: i, options: options}
	i.spec, i.ready = s.spec, s.ping
	if err := s.setup(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("private mariadb: %w", err), s.Close())
	}
	return s, nil
}

func (s *MariaDBServer) setup(ctx context.Context) error {
	if err := s.install(ctx); err != nil {
		return err
	}
	if err := s.boot(ctx); err != nil {
		return err
	}
	if s.options.galera != nil && !s.options.galera.founds {
		return nil // the cluster's accounts came with its data
	}
	statements := []string{"CREATE USER app@'127.0.0.1'", "GRANT " + appGrants + " ON *.* TO app@'127.0.0.1'"}
	if s.options.SemiSync { // both of a pair begin alike, with an empty log
		statements = append(statements, "RESET MASTER")
	}
	return s.Exec(ctx, statements...)
}

// install finds the server and makes its empty data folder.
func (s *MariaDBServer) install(ctx context.Context) (err error) {
	if err := s.chooseUser(); err != nil {
		return err
	}
	args := append([]string{"--no-defaults", "--datadir=" + s.path("data"), "--tmpdir=" + s.dir}, s.asUser()...)
	if s.program, err = s.root.Find("mariadbd"); err != nil {
		var oracleErr error
		s.program, oracleErr = s.root.Find("mysqld")
		s.oracle = oracleErr == nil
	}
	installer := s.program
	switch {
	case s.oracle:
		args = append(args, "--initialize-insecure")
	case err != nil:
		return fmt.Errorf("%w; next step: apt-get install mariadb-server", err)
	default:
		args = append(args, "--auth-root-authentication-method=normal", "--skip-test-db")
		if installer, err = s.root.Find("mariadb-install-db"); err != nil {
			return err
		}
	}
	cmd := s.root.Command(ctx, installer, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(s.root), Credential: s.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(installer), err, out)
	}
	return nil
}

// Oracle says that the server is MySQL and not MariaDB.
func (s *MariaDBServer) Oracle() bool { return s.oracle }

func (s *MariaDBServer) spec() proc.Spec {
	args := append([]string{
		"--no-defaults", "--datadir=" + s.path("data"), "--bind-address=127.0.0.1",
		fmt.Sprintf("--port=%d", s.port), "--socket=" + s.path("s"), "--pid-file=" + s.path("pid"),
		// A server that starts removes the temporary tables of others from a shared folder.
		"--tmpdir=" + s.dir,
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=1",
	}, s.asUser()...)
	if s.oracle {
		// With name resolution: root is of localhost alone. The X protocol would take a port.
		args = append(args, "--mysqlx=OFF", "--innodb-redo-log-capacity=32M")
		if s.options.ServerID == 0 {
			args = append(args, "--skip-log-bin")
		}
	} else {
		args = append(args, "--skip-name-resolve", "--innodb-log-file-size=32M")
	}
	args = append(append(args, s.binlogFlags()...), s.galeraFlags()...)
	args = append(args, s.options.Flags...)
	return proc.Spec{
		Path: s.program, Root: s.root, Credential: s.credential, Args: args, Dir: s.dir, Output: s.path("mariadb.log"),
	}
}

// chooseUser gives a node of a cluster a user of its own: root's state transfer would end as
// nobody, who may not enter our folder.
func (s *MariaDBServer) chooseUser() (err error) {
	if s.options.galera == nil || os.Geteuid() != 0 {
		return nil
	}
	if s.credential, err = s.root.User("mysql"); err != nil {
		return err
	}
	return os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid))
}

// asUser is what lets the server run as root, as in a container.
func (s *MariaDBServer) asUser() []string {
	if os.Geteuid() == 0 && s.credential == nil {
		return []string{"--user=root"}
	}
	return nil
}

func (s *MariaDBServer) ping(ctx context.Context) error {
	if s.options.galera != nil { // it lets clients in before it is in the cluster, and refuses to read
		_, err := s.ask(ctx, "SELECT COUNT(*) FROM mysql.global_priv")
		return err
	}
	return withDB("mysql", s.AdminDSN(""), func(db *sql.DB) error { return db.PingContext(ctx) })
}

// DSN returns the DSN of the application user "app" for a schema: it may do
// everything in any schema, and read_only binds it.
func (s *MariaDBServer) DSN(schema string) string { return s.dsn("app", schema) }

// AdminDSN returns the DSN of root, which read_only does not bind.
func (s *MariaDBServer) AdminDSN(schema string) string { return s.dsn("root", schema) }

func (s *MariaDBServer) dsn(user, schema string) string {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = user, "tcp", s.Addr(), schema
	return c.FormatDSN()
}

// NewSchema creates a schema with a fresh name and returns its name.
func (s *MariaDBServer) NewSchema(ctx context.Context) (string, error) {
	name := freshName()
	return name, s.Exec(ctx, "CREATE DATABASE "+name)
}

// Exec runs statements as root, each by itself.
func (s *MariaDBServer) Exec(ctx context.Context, statements ...string) error {
	if err := execSQL(ctx, "mysql", s.AdminDSN(""), statements...); err != nil {
		return fmt.Errorf("private mariadb: %w", err)
	}
	return nil
}

// ReadOnly makes the server refuse writes of the application user (1290), or
// ends that. Open transactions cannot commit any more.
func (s *MariaDBServer) ReadOnly(ctx context.Context, on bool) error {
	return s.Exec(ctx, fmt.Sprintf("SET GLOBAL read_only = %t", on))
}

// LockTable takes a write lock on a table, so that every statement that touches
// it waits until unlock, which may be called once. LockWaits proves that it bit.
func (s *MariaDBServer) LockTable(ctx context.Context, schema, table string) (unlock func() error, err error) {
	db, err := sql.Open("mysql", s.AdminDSN(schema))
	if err != nil {
		return nil, fmt.Errorf("lock table: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock table: %w", err), db.Close())
	}
	if _, err := conn.ExecContext(ctx, "LOCK TABLES `"+table+"` WRITE"); err != nil {
		return nil, errors.Join(fmt.Errorf("lock table: %w", err), conn.Close(), db.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.Background(), "UNLOCK TABLES")
		return errors.Join(err, conn.Close(), db.Close())
	}, nil
}

// LockWaits returns how many connections wait for a table or metadata lock now.
func (s *MariaDBServer) LockWaits(ctx context.Context) (n int, err error) {
	err = withDB("mysql", s.AdminDSN(""), func(db *sql.DB) error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist "+
			"WHERE state LIKE 'Waiting for table%lock'").Scan(&n)
	})
	return n, err
}

// KillConnections ends the connections of the application user, as a failover
// does, and says how many there were.
func (s *MariaDBServer) KillConnections(ctx context.Context) (n int, err error) {
	err = withDB("mysql", s.AdminDSN(""), func(db *sql.DB) error {
		n, err = killMySQL(ctx, db, "user = ?", "app")
		return err
	})
	return n, err
}
