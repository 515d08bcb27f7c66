package gormstore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/transmsg/transmsg/model"
)

// class says what an error tells about the statement it came from.
type class uint8

const (
	// classUnknown: the connection broke or a deadline passed in mid statement. It may
	// have run.
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
func commitError(err error) error {
	if err == nil || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err) || classify(err) == classRetry {
		return err
	}
	return unknownError{err}
}

// uncommitted marks the error of a statement inside a transaction that was not
// committed: even if the connection broke, the server undoes it.
func uncommitted(err error) error {
	if classify(err) == classUnknown {
		return notSentError{err}
	}
	return err
}

// classify is the one place where errors of all drivers are judged.
func classify(err error) class {
	var (
		notSent notSentError
		unknown unknownError
		my      *mysql.MySQLError
		pg      *pgconn.PgError
		lite    interface {
			error
			Code() int
		}
		dial *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return classUnknown
	case errors.As(err, &notSent), errors.Is(err, driver.ErrBadConn), pgconn.SafeToRetry(err):
		return classNotSent
	case errors.Is(err, mysql.ErrPktTooLarge):
		return classData // refused by the driver before sending
	case errors.As(err, &my):
		return classifyMySQL(my)
	case errors.As(err, &pg):
		return classifyPostgres(pg.Code)
	case errors.As(err, &lite):
		return classifySQLite(lite.Code())
	case errors.As(err, &dial) && dial.Op == "dial":
		return classNotSent
	}
	return classUnknown
}

func classifyMySQL(e *mysql.MySQLError) class {
	switch e.Number {
	case 1062: // duplicate key
		return classDuplicate
	case 1213, 1020: // deadlock, record changed since last read
		return classRetry
	case 1205: // lock wait timeout
		return classBusy
	case 1290, 1792, 1836: // --read-only, read-only transaction, read-only mode
		return classReadOnly
	case 1053, 1105, 1180, 1927: // shutdown, unknown (proxies), error during commit, connection killed
		return classUnknown
	case 1158, 1159, 1160, 1161: // the server's network errors
		return classUnknown
	case 1317, 1969: // interrupted, statement timeout: perhaps in the commit of autocommit
		return classUnknown
	case 1153, 1366, 1406, 1264, 1048, 3819, 4025: // packet, value, length, range, null, check constraint
		return classData
	}
	if s := string(e.SQLState[:2]); s == "22" || s == "23" {
		return classData
	}
	return classRefused
}

func classifyPostgres(code string) class {
	switch code {
	case "23505": // unique violation
		return classDuplicate
	case "40001", "40P01": // serialization failure, deadlock
		return classRetry
	case "55P03": // lock not available
		return classBusy
	case "25006": // read-only transaction
		return classReadOnly
	case "57P01", "57P02", "40003": // shutdown, crash, completion unknown
		return classUnknown
	case "57P03", "53300": // cannot connect now, too many connections
		return classNotSent
	}
	switch code[:min(2, len(code))] {
	case "22", "23", "54":
		return classData
	case "08", "58", "XX":
		return classUnknown
	}
	return classRefused
}

func classifySQLite(code int) class {
	const (
		busy, locked, readOnly, ioErr, tooBig, constraint, mismatch = 5, 6, 8, 10, 18, 19, 20
		primaryKey, unique                                          = 1555, 2067
	)
	if code == primaryKey || code == unique {
		return classDuplicate
	}
	switch code & 0xff {
	case busy, locked:
		return classRetry
	case readOnly:
		return classReadOnly
	case constraint, tooBig, mismatch:
		return classData
	case ioErr:
		return classUnknown
	}
	return classRefused
}

// missingTable reports whether err says that a table does not exist.
func missingTable(err error) bool {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	if errors.As(err, &my) {
		return my.Number == 1146
	}
	if errors.As(err, &pg) {
		return pg.Code == "42P01"
	}
	return slices.Contains([]string{"SQL logic error: no such table"}, firstPart(err.Error()))
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
	if classify(err).certain() {
		kind = model.ErrNotStored
	}
	return &model.StoreError{Kind: kind, IDs: ids, Err: s.wrap("insert", err)}
}
