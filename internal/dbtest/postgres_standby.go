package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// standbyName is what a primary waits for at each commit.
const standbyName = "transmsg_standby"

// reload makes a PostgreSQL read its settings again.
const reload = "SELECT pg_reload_conf()"

// Attach makes the server a standby of the primary: its own data gives way to a copy of the primary's,
// and with it what nobody was told of. It returns when it has all that the primary has. From then on
// the primary waits for it at each commit (synchronous_commit is on, and it is the standby that is
// named).
func (s *PostgresServer) Attach(ctx context.Context, primary *PostgresServer) error {
	if err := errors.Join(s.Stop(), os.RemoveAll(s.path("data"))); err != nil {
		return err
	}
	cmd := s.root.Command(ctx, filepath.Join(s.bin, "pg_basebackup"), "-D", s.path("data"), "-X", "stream",
		"-c", "fast", "--no-sync", "-R", "-d", "host=127.0.0.1 port="+strconv.Itoa(primary.port)+" user=postgres "+
			"application_name="+standbyName)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(s.root), Credential: s.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("private postgres: pg_basebackup: %w: %s", err, out)
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := primary.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'",
		reload); err != nil {
		return err
	}
	if err := awaitSQL(ctx, "the primary has its standby", func() (bool, error) {
		state, err := primary.ask(ctx, "SELECT coalesce(max(sync_state), '') FROM pg_stat_replication")
		return state == "sync", err
	}); err != nil {
		return err
	}
	return s.InStep(ctx, primary)
}

// InStep waits until the server has what the primary has written by now.
func (s *PostgresServer) InStep(ctx context.Context, primary *PostgresServer) error {
	position, err := primary.ask(ctx, "SELECT pg_current_wal_lsn()::text")
	if err != nil {
		return err
	}
	return awaitSQL(ctx, "the standby has reached "+position, func() (bool, error) {
		done, err := s.ask(ctx, "SELECT (pg_last_wal_replay_lsn() >= '"+position+"'::pg_lsn)::text")
		return done == "true", err
	})
}

// Promote makes a standby the primary. Until another server is attached it commits alone.
func (s *PostgresServer) Promote(ctx context.Context) error {
	return s.Exec(ctx, "ALTER SYSTEM RESET synchronous_standby_names",
		"ALTER SYSTEM RESET default_transaction_read_only", reload, "SELECT pg_promote(true, 60)")
}

// ReadOnly makes the server refuse writes (25006) from the next transaction on, or ends that.
func (s *PostgresServer) ReadOnly(ctx context.Context, on bool) error {
	return s.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %t", on), reload)
}

// Pause freezes the server with its back ends, which are processes of their own.
func (s *PostgresServer) Pause() error {
	if err := s.Instance.Pause(); err != nil { // first: it starts none then
		return err
	}
	return s.signalBackends(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *PostgresServer) Resume() error {
	return errors.Join(s.signalBackends(syscall.SIGCONT), s.Instance.Resume())
}

func (s *PostgresServer) signalBackends(sig syscall.Signal) error {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return err
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid: the name may have anything in it.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(s.process().Pid()) {
			continue
		}
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("back end %d: %w", pid, err)
		}
	}
	return nil
}

func (s *PostgresServer) ask(ctx context.Context, query string) (answer string, err error) {
	err = withDB("pgx", s.DSN("postgres"), func(db *sql.DB) error {
		return db.QueryRowContext(ctx, query).Scan(&answer)
	})
	if err != nil {
		return "", fmt.Errorf("private postgres: %s: %w", query, err)
	}
	return answer, nil
}
