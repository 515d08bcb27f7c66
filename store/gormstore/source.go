package gormstore

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// Source says on which database [Open] opens a store. The functions DSN, SQL and Gorm of the
// packages store/mysql, store/postgres and store/sqlite return one; each of these packages
// links the one driver of its dialect. The zero value is refused by [Open].
type Source struct {
	driver Driver
	label  string
	own    func(Options) (*sql.DB, error) // makes the store's own pool
	pool   *sql.DB                        // the caller's
	err    error
}

// Driver is what a dialect's package tells about the driver that it links.
type Driver struct {
	// Dialect is "mysql", "postgres" or "sqlite".
	Dialect string
	// Reply returns the server's own answer in an error of the driver, where there is one.
	Reply func(error) (Reply, bool)
	// NotSent reports whether the driver knows that nothing was sent. Nil means that it
	// never says so.
	NotSent func(error) bool
	// Lost reports whether an error of the driver says that the connection broke or could not
	// be made, where no error of the standard library does. Nil means that one always does.
	Lost func(error) bool
	// Check refuses a caller's pool, when a store is opened, for what lies between it and its
	// server. Nil means that anything may. An own pool looks by itself.
	Check func(context.Context, *sql.DB) error
}

// Reply is the answer by which a server refused a statement.
type Reply struct {
	// Number is MySQL's error number or SQLite's result code, 0 on PostgreSQL.
	Number int
	// State is PostgreSQL's SQLSTATE.
	State string
	// Message is the server's text, where a rule needs it.
	Message string
}

// OwnPool is the source of a store that opens a pool of its own by open, which dials
// nothing yet. label names the server in errors, such as "mysql 127.0.0.1:3306/shop", and
// holds no secret.
func OwnPool(d Driver, label string, open func(Options) (*sql.DB, error)) Source {
	return Source{driver: d, label: label, own: open}
}

// CallersPool is the source of a store on a caller's pool, which stays the caller's to close.
func CallersPool(d Driver, db *sql.DB) Source {
	s := Source{driver: d, label: d.Dialect, pool: db}
	if db == nil {
		s.err = errors.New("the *sql.DB is nil")
	}
	return s
}

// CallersGorm is [CallersPool] for the pool of a *gorm.DB.
func CallersGorm(d Driver, gdb *gorm.DB) Source {
	if gdb == nil {
		return Source{driver: d, err: errors.New("the *gorm.DB is nil")}
	}
	if name := gdb.Name(); name != d.Dialect {
		return Source{driver: d, err: errors.New("the *gorm.DB speaks " + name + ", and this source is for " +
			d.Dialect + ": use the package below store/ that is named after it")}
	}
	db, err := gdb.DB()
	if err != nil {
		return Source{driver: d, err: err}
	}
	return CallersPool(d, db)
}

// Refused is a source that [Open] refuses with this error.
func Refused(err error) Source { return Source{err: err} }

// Err reports what can be said against the source without asking a server, such as a
// mistake in the DSN. It never contains a secret.
func (src Source) Err() error {
	if src.err == nil && src.own == nil && src.pool == nil {
		return errors.New("no database is given: make a source with mysql.DSN, postgres.DSN or sqlite.DSN")
	}
	return src.err
}

// Dialect returns "mysql" (MariaDB too), "postgres" or "sqlite".
func (src Source) Dialect() string { return src.driver.Dialect }

// Label names the database for people and holds no secret.
func (src Source) Label() string { return src.label }
