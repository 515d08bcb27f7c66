package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Who stores the id after the savepoints were rolled back.
const (
	nextOwn    = "the transaction itself"
	nextRival  = "another process"
	nextNobody = "nobody"
	// nextRefused: another process had it before, and the transaction's own is refused.
	nextRefused = "another process, before"
)

// identityRound is one transaction about one id.
type identityRound struct {
	c       *identity
	id      string
	way     string
	text    bool // savepoints by SQL text, which the Tx does not see; else by Tx.Savepoint or gorm
	depth   int  // of savepoints in one another
	next    string
	kept    bool // what the transaction itself stores next is in a savepoint that is kept
	fails   bool // the handler returns an error at its end
	savings int  // savepoints so far, for their names
	mine    []*body
	rival   chan error
}

// transact draws one transaction and runs it.
func (c *identity) transact(ctx context.Context, n int) error {
	nexts := []string{nextOwn, nextOwn, nextRival, nextNobody, nextRefused}
	r := &identityRound{
		c: c, id: c.newID(), way: c.handlers.ways()[c.Rand.IntN(4)], text: c.Rand.IntN(2) == 0,
		depth: 1 + c.Rand.IntN(3), next: nexts[n%len(nexts)], kept: c.Rand.IntN(3) == 0,
		fails: c.Rand.IntN(6) == 0, rival: make(chan error, 1),
	}
	undo := map[bool]string{true: "SQL text", false: "Tx.Savepoint"}[r.text]
	if r.way == byGormtx && !r.text {
		undo = "gorm's nested"
	}
	c.ways[r.way+", "+undo]++
	r.rival <- nil
	if r.next == nextRefused {
		r.store(ctx)
	}
	err := c.transaction(ctx, r.way, func(inside context.Context, tx handlerTx) error {
		return r.handle(ctx, inside, tx)
	})
	r.judge(fmt.Sprintf("%s, %s, then %s", r.way, undo, r.next), err)
	if err := <-r.rival; err != nil {
		return fmt.Errorf("another process stores the id: %w", err)
	}
	return nil
}

// store makes the other process store the id, in the background.
func (r *identityRound) store(ctx context.Context) {
	if err := <-r.rival; err != nil {
		r.c.Breaches.Add("another process stored the id before: %v", err)
	}
	m, b := r.c.content(r.id, "what another process stored")
	b.fate = always
	done := make(chan error, 1)
	r.rival = done
	go func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := r.c.rival.pub.Publish(ctx, m)
		done <- err
	}()
	// SQLite has one writer: there it gets its turn when the transaction ends.
	if r.c.Store != "sqlite" || r.next == nextRefused {
		err := <-done
		done <- err
	}
}

func (r *identityRound) handle(ctx, inside context.Context, tx handlerTx) error {
	companion, b := r.c.content(r.c.newID(), "what the transaction stored beside")
	if r.c.Rand.IntN(2) == 0 {
		r.mine = append(r.mine, b)
		if err := tx.out.Publish(inside, companion); err != nil {
			return err
		}
	}
	if r.next == nextRefused {
		return errors.Join(r.undone(inside, tx, 1), r.end())
	}
	for range 1 + r.c.Rand.IntN(3) {
		if err := r.undone(inside, tx, r.depth); err != nil {
			return err
		}
	}
	switch r.next {
	case nextOwn:
		m, b := r.c.content(r.id, "what the transaction stored last")
		r.mine = append(r.mine, b)
		publish := func() error { return tx.out.Publish(inside, m) }
		var err error
		if r.kept {
			err = tx.savepoint(inside, publish)
		} else {
			err = publish()
		}
		if err != nil {
			return err
		}
	case nextRival:
		r.store(ctx)
	}
	return r.end()
}

func (r *identityRound) end() error {
	if r.fails {
		return errHandler
	}
	return nil
}

var errUndone = errors.New("undo the savepoint")

// undone publishes the id inside a savepoint that is rolled back, and before that inside
// inner ones, each with another body.
func (r *identityRound) undone(ctx context.Context, tx handlerTx, depth int) error {
	inner := func() error {
		if depth > 1 {
			if err := r.undone(ctx, tx, depth-1); err != nil {
				return err
			}
		}
		m, _ := r.c.content(r.id, "what was rolled back")
		err := tx.out.Publish(ctx, m)
		if r.next == nextRefused {
			r.c.Breaches.Check(err != nil, "%s: an id that is stored with other content was published again", r.way)
			return nil
		}
		return err
	}
	r.c.count("savepoints rolled back", 1)
	if !r.text {
		err := tx.savepoint(ctx, func() error { return errors.Join(inner(), errUndone) })
		if isOnly(err, errUndone) {
			return nil
		}
		return fmt.Errorf("savepoint: %w", err)
	}
	r.savings++
	name := fmt.Sprintf("sp%d", r.savings)
	if err := tx.exec(ctx, "SAVEPOINT "+name); err != nil {
		return err
	}
	err := inner()
	return errors.Join(err, tx.exec(ctx, "ROLLBACK TO SAVEPOINT "+name))
}

// isOnly says whether err is what, wrapped or joined with nothing else.
func isOnly(err, what error) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return len(joined.Unwrap()) == 1 && isOnly(joined.Unwrap()[0], what)
	}
	return errors.Is(err, what)
}

// judge compares the error with what happened, and notes what was committed.
func (r *identityRound) judge(what string, err error) {
	is := func(target error) bool { return errors.Is(err, target) }
	committed := !r.fails
	check := r.c.Breaches.Check
	switch {
	case r.fails:
		check(is(errHandler), "%s: got %v, want the handler's error", what, err)
	case r.next == nextRefused && r.text: // the Publish that failed is not known to be undone
		committed = false
		check(is(model.ErrNotStored), "%s: got %v, want ErrNotStored", what, err)
	case r.text && (r.next == nextRival || r.next == nextNobody):
		check(is(model.ErrRowsMissing), "%s: got %v, want ErrRowsMissing", what, err)
	default:
		check(err == nil, "%s: got %v, want nil", what, err)
	}
	if committed {
		for _, b := range r.mine {
			b.fate = always
		}
	}
}
