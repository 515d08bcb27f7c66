package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// Mark is a moment in a transaction, to which it may be rolled back; see [Tx.Mark].
type Mark struct{ pending, failed int }

// Savepoint runs fn inside a savepoint of the transaction, and rolls back to it when fn
// returns an error or panics; both come back unchanged. Messages that fn published do not
// exist then, what failed in it does not count, and the rest of the transaction goes on:
//
//	err := out.Savepoint(ctx, func() error {
//		if _, err := tx.ExecContext(ctx, "UPDATE stock SET n = n - 1 WHERE id = ?", id); err != nil {
//			return err
//		}
//		return out.Publish(ctx, reserved)
//	})
//	if err != nil {
//		// go on without: both are undone
//	}
//
// A savepoint that is set and rolled back by SQL text is not seen by the Tx: tell it with
// [Tx.Mark] and [Tx.RolledBackTo], or Commit misses the messages. The nested transactions
// of gorm inside gormtx.Transaction are seen.
//
// Where the savepoint cannot be set, or not be rolled back, the error is
// [model.ErrTxMustRollBack]; after a deadlock, for instance, the server has rolled back all.
func (t *Tx) Savepoint(ctx context.Context, fn func() error) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.mu.Lock()
	t.savepoints++
	name := fmt.Sprintf("transmsg_%d", t.savepoints)
	t.mu.Unlock()
	if _, err := t.direct().ExecContext(ctx, "SAVEPOINT "+name); err != nil {
		return t.broken("set a savepoint", err)
	}
	mark, done := t.Mark(), false
	defer func() {
		if !done { // a panic: the caller gets that, and rolls back all
			_ = t.undo(ctx, name, mark)
		}
	}()
	err := fn()
	done = true
	if err != nil {
		return errors.Join(err, t.undo(ctx, name, mark))
	}
	if _, err := t.direct().ExecContext(ctx, "RELEASE SAVEPOINT "+name); err != nil {
		return t.broken("release a savepoint", err)
	}
	return nil
}

// undo rolls back to a savepoint, also when ctx has ended meanwhile.
func (t *Tx) undo(ctx context.Context, name string, mark Mark) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	for _, statement := range []string{"ROLLBACK TO SAVEPOINT ", "RELEASE SAVEPOINT "} {
		if _, err := t.direct().ExecContext(ctx, statement+name); err != nil {
			return t.broken("roll back to a savepoint", err)
		}
	}
	t.RolledBackTo(mark)
	return nil
}

// direct is the handle for statements that a server may not prepare, where the store knows one
// below the caller's.
func (t *Tx) direct() Execer {
	if d, ok := t.p.cfg.Store.(interface{ Direct(Execer) Execer }); ok {
		return d.Direct(t.exec)
	}
	return t.exec
}

// broken is the error for a statement on the caller's handle that left the transaction in
// a state that nobody knows. It cannot be committed.
func (t *Tx) broken(what string, err error) error {
	err = fmt.Errorf("publisher: %s: %w", what, &model.StoreError{Kind: model.ErrTxMustRollBack, Err: err})
	t.remember(&failure{call: "Tx.Savepoint", err: err})
	return err
}

// Mark returns the present moment, for who sets savepoints by SQL text of his own: call it
// right after the SAVEPOINT, and [Tx.RolledBackTo] after a ROLLBACK TO SAVEPOINT.
func (t *Tx) Mark() Mark {
	if t.usable() != nil {
		return Mark{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return Mark{pending: len(t.pending), failed: len(t.failed)}
}

// RolledBackTo tells the Tx that its transaction has been rolled back to m: what was
// published since does not exist, and Commit does not miss it; what failed since does not
// count.
func (t *Tx) RolledBackTo(m Mark) {
	if t.usable() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = t.pending[:min(m.pending, len(t.pending))]
	t.failed = t.failed[:min(m.failed, len(t.failed))]
}
