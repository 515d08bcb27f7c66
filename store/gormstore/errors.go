package gormstore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/transmsg/transmsg/model"
)

// class says what an error tells about the statement it came from.
type class uint8

const (
	// classUnknown: the connection broke, a deadline passed in mid statement, or somebody
	// answered with an error that is not known to undo it. It may have run.
	classUnknown class = iota
	// classNotSent: nothing reached the server.
	classNotSent
	// classRefused: the server answered with an error and undid the statement.
	classRefused
	// classDuplicate: refused, since a primary key exists.
	classDuplicate
	// classData: refused because of a value in it; other rows may pass.
	classData
	// classRetry: the transaction was undone by its rivals; the same again may pass.
	classRetry
	// classBusy: undone since a lock was not free in time; nothing of it is stored.
	classBusy
	// classReadOnly: refused by a server that is read only, such as a former primary.
	classReadOnly
)

// certain reports whether an error of this class means that nothing was stored.
func (c class) certain() bool { return c != classUnknown }

// notSentError marks an error met before anything was sent or committed.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// unknownError marks an error after which nobody knows what was committed.
type unknownError struct{ error }

func (e unknownError) Unwrap() error { return e.error }

// commitError marks the error of a COMMIT. Only a server that says that rivals undid the
// transaction, or a COMMIT that was never sent, is certain: MariaDB may answer "query
// interrupted" to one that took effect.
func (d *dialect) commitError(err error) error {
	undone := d.classify(err) == classRetry && !d.needsReprepare(err)
	if err == nil || errors.Is(err, driver.ErrBadConn) || d.notSent(err) || undone {
		return err
	}
	return unknownError{err}
}

// uncommitted marks the error of a statement inside a transaction that was not
// committed: even if the connection broke, the server undoes it.
func (d *dialect) uncommitted(err error) error {
	if d.classify(err) == classUnknown {
		return notSentError{err}
	}
	return err
}

// reply is the server's own answer in err, where it has one.
func (d *dialect) reply(err error) (Reply, bool) {
	if err == nil || d.driver.Reply == nil {
		return Reply{}, false
	}
	return d.driver.Reply(err)
}

// notSent reports whether the driver knows that nothing was sent.
func (d *dialect) notSent(err error) bool { return d.driver.NotSent != nil && d.driver.NotSent(err) }

// classify is the one place where errors of all drivers are judged.
func (d *dialect) classify(err error) class {
	var (
		notSent notSentError
		unknown unknownError
		dial    *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return classUnknown
	case errors.As(err, &notSent), errors.Is(err, driver.ErrBadConn), d.notSent(err):
		return classNotSent
	}
	if r, ok := d.reply(err); ok {
		switch d.name {
		case dialectMySQL:
			return classifyMySQL(r.Number)
		case dialectPostgres:
			return classifyPostgres(r.State)
		default:
			return classifySQLite(r.Number)
		}
	}
	if errors.As(err, &dial) && dial.Op == "dial" {
		return classNotSent
	}
	return classUnknown
}

// missingTable reports whether err says that a table does not exist.
func (d *dialect) missingTable(err error) bool {
	r, ok := d.reply(err)
	switch {
	case !ok:
		return false
	case d.name == dialectMySQL:
		return r.Number == 1146
	case d.name == dialectPostgres:
		return r.State == "42P01"
	}
	return firstPart(r.Message) == "SQL logic error: no such table"
}

// firstPart returns s up to its second colon.
func firstPart(s string) string {
	colons := 0
	for i := range len(s) {
		if s[i] == ':' {
			if colons++; colons == 2 {
				return s[:i]
			}
		}
	}
	return s
}

// wrap names the operation and the server.
func (s *Store) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	s.evictReadOnly(err)
	return fmt.Errorf("gormstore: %s: %s: %w", op, s.label, err)
}

// storeError is the failure of an INSERT: certain, or not.
func (s *Store) storeError(ids []string, err error) error {
	kind := model.ErrStoreUnknown
	if s.d.classify(err).certain() {
		kind = model.ErrNotStored
	}
	return &model.StoreError{Kind: kind, IDs: ids, Err: s.wrap("insert", err)}
}
