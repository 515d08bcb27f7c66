package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/transmsg/transmsg/model"
)

// The ends of a transaction.
const (
	endOutlived         = "open for longer than the lease"
	endRolledBack       = "rolled back"
	endSavepoint        = "savepoint rolled back, outer committed"
	endOuter            = "outer of a savepoint that was rolled back"
	endDeadlock         = "deadlocked, error swallowed"
	endWrongDatabase    = "wrong database"
	endConnectionKilled = "connection killed before the commit"
	endCutBefore        = "cut before the server got the commit"
	endCutAfter         = "cut after the server committed"
	endNeverCalled      = "committed past the Tx"
	endKilled           = "process killed after the commit"
)

// outlived keeps several transactions open for longer than the lease, while the
// compensator looks for rows that are due.
func (t *transactions) outlived(ctx context.Context, c conduit, _ string) error {
	var open sync.WaitGroup
	for range 8 {
		m := t.message(endOutlived)
		hold := t.spec.firstLease() + time.Duration(100+t.Rand.IntN(1500))*time.Millisecond
		open.Go(func() {
			err := c.transaction(ctx, t.svc.pub, func(s session) error {
				err := order(ctx, s, m)
				time.Sleep(hold) // The transaction's own work.
				return err
			})
			t.Breaches.Check(err == nil, "%s: %v", endOutlived, err)
		})
	}
	open.Wait()
	return nil
}

var errAbort = errors.New("the service changed its mind")

func (t *transactions) rolledBack(ctx context.Context, c conduit, _ string) error {
	err := c.transaction(ctx, t.svc.pub, func(s session) error {
		return errors.Join(order(ctx, s, t.message(endRolledBack)), errAbort)
	})
	t.Breaches.Check(errors.Is(err, errAbort), "%s: got %v, want the function's error", endRolledBack, err)
	func() {
		defer func() { t.Breaches.Equal(endRolledBack+": panic", recover(), any(errAbort)) }()
		_ = c.transaction(ctx, t.svc.pub, func(s session) error {
			if err := order(ctx, s, t.message(endRolledBack)); err != nil {
				return err
			}
			panic(errAbort)
		})
	}()
	return nil
}

// savepoint rolls a savepoint back with one message, with and without a message
// of the outer transaction.
func (t *transactions) savepoint(ctx context.Context, c conduit, _ string) error {
	inner := func(s session) error {
		err := s.savepoint(ctx, func(s session) error {
			return errors.Join(order(ctx, s, t.message(endSavepoint)), errAbort)
		})
		if !errors.Is(err, errAbort) {
			return fmt.Errorf("savepoint: %w", err)
		}
		return nil
	}
	err := c.transaction(ctx, t.svc.pub, func(s session) error {
		return errors.Join(order(ctx, s, t.message(endOuter)), inner(s))
	})
	t.Breaches.Check(err == nil, "%s: %v", endOuter, err)
	err = c.transaction(ctx, t.svc.pub, inner)
	t.Breaches.Check(err == nil, "%s: %v", endSavepoint, err) // nothing is missed: the Tx saw it
	return nil
}

func (t *transactions) wrongDatabase(ctx context.Context, c conduit, _ string) error {
	err := c.transaction(ctx, t.svc.pub, func(s session) error { return order(ctx, s, t.message(endWrongDatabase)) })
	t.Breaches.Check(errors.Is(err, model.ErrRowsMissing), "%s: got %v, want ErrRowsMissing", endWrongDatabase, err)
	return nil
}

// deadlocked makes the transaction the victim of a real deadlock after it has
// published, and swallows the error.
func (t *transactions) deadlocked(ctx context.Context, c conduit, _ string) error {
	var victim error
	err := c.transaction(ctx, t.svc.pub, func(s session) error {
		if err := order(ctx, s, t.message(endDeadlock)); err != nil {
			return err
		}
		if err := s.exec(ctx, "UPDATE stock SET n = n + 1 WHERE id = 1"); err != nil {
			return err
		}
		finish, err := t.rival(ctx)
		if err != nil {
			return err
		}
		victim = s.exec(ctx, "UPDATE stock SET n = n + 1 WHERE id = 2")
		return finish()
	})
	if !isDeadlock(victim) {
		return fmt.Errorf("the statement was to end in a deadlock: %w", errors.Join(victim, err))
	}
	if t.Store == "mysql" { // The commit of nothing succeeds.
		t.Breaches.Check(errors.Is(err, model.ErrRowsMissing), "%s: got %v, want ErrRowsMissing", endDeadlock, err)
	} else {
		t.Breaches.Check(err != nil, "%s: got no error", endDeadlock)
	}
	return nil
}

// rival locks row 2, makes sure that it is not the victim, and waits for row 1.
func (t *transactions) rival(ctx context.Context) (finish func() error, err error) {
	tx, err := t.db.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	// InnoDB rolls back who has written least; PostgreSQL who looks for the deadlock first.
	survive, who, waits := "INSERT INTO stock VALUES (3, 0)"+strings.Repeat(", (3 + RAND() * 1e9, 0)", 99),
		"SELECT CONNECTION_ID()", "SELECT COUNT(*) FROM information_schema.innodb_trx "+
			"WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = ?"
	if t.Store == "postgres" {
		survive, who, waits = "SET LOCAL deadlock_timeout = '60s'", "SELECT pg_backend_pid()",
			"SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = ?"
	}
	var id int
	err = tx.QueryRowContext(ctx, who).Scan(&id)
	for _, statement := range []string{survive, "UPDATE stock SET n = n + 1 WHERE id = 2"} {
		if err == nil {
			_, err = tx.ExecContext(ctx, statement)
		}
	}
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	done := make(chan error, 1)
	go func() {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET n = n + 1 WHERE id = 1")
		done <- err
	}()
	err = until(ctx, 20*time.Second, "the rival waits", func(ctx context.Context) (bool, error) {
		n, err := t.db.number(ctx, waits, id)
		return n == 1, err
	})
	return func() error { return errors.Join(<-done, tx.Rollback()) }, err
}

func isDeadlock(err error) bool {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	return errors.As(err, &my) && my.Number == 1213 || errors.As(err, &pg) && pg.Code == "40P01"
}

// neverCalled commits by hand and forgets the rest.
func (t *transactions) neverCalled(ctx context.Context, c conduit, _ string) error {
	s, commit, err := c.begin(ctx, t.svc.pub)
	if err != nil {
		return err
	}
	return errors.Join(order(ctx, s, t.message(endNeverCalled)), commit())
}

// commitOrder is what a child is told that commits once and is then killed.
type commitOrder struct {
	Spec         serviceSpec
	Via, Dialect string
	Message      model.Message
}

func (t *transactions) killed(ctx context.Context, _ conduit, via string) error {
	m := t.message(endKilled)
	m.Headers = nil // They would not cross as JSON.
	child, err := startChild("commit", commitOrder{Spec: t.spec, Via: via, Dialect: t.Store, Message: m})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(child.out)
	committed := lines.Scan() && lines.Text() == "committed"
	if err := errors.Join(child.kill(), child.wait()); err != nil {
		return err
	}
	if !committed {
		return errors.New("the child did not commit")
	}
	return nil
}

// commitChild commits, says so, and waits to be killed.
func commitChild(ctx context.Context, data []byte) error {
	var o commitOrder
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	svc, err := openService(ctx, o.Spec)
	if err != nil {
		return err
	}
	c, err := openConduit(o.Via, o.Dialect, o.Spec.DSN)
	if err != nil {
		return err
	}
	s, commit, err := c.begin(ctx, svc.pub)
	if err != nil {
		return err
	}
	if err := errors.Join(order(ctx, s, o.Message), commit()); err != nil {
		return err
	}
	fmt.Println("committed")
	select {}
}
