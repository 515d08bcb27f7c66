package gormstore_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestTransactionsEndWithTheirContext: the network swallows everything from COMMIT or
// ROLLBACK on, without closing anything. The call ends with its context all the same, and
// the connection is not used again.
func TestTransactionsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{"mysql": dbtest.MySQL(t), "postgres": dbtest.Postgres(t)} {
		for _, own := range []bool{true, false} {
			for end, fnErr := range map[string]error{"commit": nil, "rollback": errors.New("no")} {
				t.Run(name+" "+end, func(t *testing.T) {
					t.Parallel()
					stallAtEnd(t, dsn, own, fnErr)
				})
			}
		}
	}
}

func stallAtEnd(t *testing.T, dsn string, own bool, fnErr error) {
	t.Helper()
	s, proxy := throughProxy(t, dsn)
	if !own {
		s.AsCallersPool()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- s.TryTx(ctx, func(gormstore.DBTx) error {
			proxy.Stall(faultproxy.ToServer)
			return fnErr
		})
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for proxy.Stats().Stalled == 0 {
		select {
		case err := <-done:
			t.Fatalf("ended before its end was sent: %v", err)
		case <-tick.C:
		}
	}
	cancel()
	select {
	case err := <-done:
		if err == nil || (fnErr == nil && s.Classify(err) != gormstore.ClassUnknown) {
			t.Errorf("got %v of class %d, want an unknown result", err, s.Classify(err))
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the transaction outlives its context")
	}
	proxy.Resume()
	var n int
	if err := s.Pool().QueryRowContext(t.Context(), "SELECT 1").Scan(&n); err != nil {
		t.Errorf("the pool after it: %v", err)
	}
}

// throughProxy opens a store whose one connection goes through a proxy.
func throughProxy(t *testing.T, dsn string) (*gormstore.Store, *faultproxy.Proxy) {
	t.Helper()
	target := regexp.MustCompile(`[\w.]+:\d+`).FindString(dsn)
	if target == "" {
		t.Fatal("the dsn of the shared server names no host:port")
	}
	proxy, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := anystore.Open(t.Context(), strings.Replace(dsn, target, proxy.Addr(), 1),
		gormstore.Options{SkipSchemaCheck: true, MaxOpenConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Pool().Close() })
	return s, proxy
}

// TestFailedTransactionsLeaveNothingBehind: a connection comes back to the pool without
// the transaction that failed on it.
func TestFailedTransactionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	s, err := anystore.Open(t.Context(), dbtest.MySQL(t), gormstore.Options{SkipSchemaCheck: true, MaxOpenConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Pool().ExecContext(t.Context(), "CREATE TABLE t (n INT) ENGINE=InnoDB"); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no")
	panics := func(gormstore.DBTx) error { panic(failure) }
	fails := func(tx gormstore.DBTx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
		return errors.Join(failure, err)
	}
	for _, fn := range []func(gormstore.DBTx) error{fails, panics, fails} {
		func() {
			defer func() { _ = recover() }()
			if err := s.TryTx(t.Context(), fn); !errors.Is(err, failure) {
				t.Errorf("got %v, want the function's error", err)
			}
		}()
		var rows int
		_, inside := s.Pool().ExecContext(t.Context(), "SET TRANSACTION READ WRITE") // refused in a transaction
		err := s.Pool().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&rows)
		if err != nil || rows != 0 || inside != nil {
			t.Errorf("%d rows, in transaction %v, %v, want none", rows, inside, err)
		}
	}
	if _, err := s.Pool().ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
		t.Fatal(err)
	}
}
