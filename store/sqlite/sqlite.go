// Package sqlite is the source of a store in a SQLite file or in memory, for one process or
// several on one host. It links libtnb/sqlite and no other driver.
package sqlite

import (
	"database/sql"
	"errors"
	"net/url"
	"strings"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/store/gormstore"
)

const memory = ":memory:"

// DSN opens the file with one connection of the store's own. The forms are a path, sqlite:PATH
// and :memory:, which may follow sqlite: too. The path contains no ? and no #. A file or memory
// that is the program's own gets its tables by migrations.Open.
func DSN(dsn string) gormstore.Source {
	path := dsn
	if rest, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		path = strings.TrimPrefix(rest, "//")
	}
	if path == "" || strings.ContainsAny(path, "?#") {
		return gormstore.Refused(errors.New("dsn: the path of a SQLite file must not be empty or contain ? or #"))
	}
	text := "?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)"
	if path == memory {
		text = memory + text
	} else {
		text = "file:" + (&url.URL{Path: path}).EscapedPath() + text + "&_pragma=journal_mode(WAL)"
	}
	return gormstore.OwnPool(driver, "sqlite "+path, func(o gormstore.Options) (*sql.DB, error) {
		if o.TLS != nil || o.Credentials != nil {
			return nil, errors.New("options: TLS and Credentials are for database servers, SQLite is a file")
		}
		return sql.Open(sqlite.DriverName, text)
	})
}

// SQL is the service's own pool, opened with libtnb/sqlite or modernc.org/sqlite; its settings
// stay as they are, and it stays the caller's to close. Give its DSN _txlock=immediate and a
// busy_timeout.
func SQL(db *sql.DB) gormstore.Source { return gormstore.CallersPool(driver, db) }

// Gorm is the service's own *gorm.DB, opened with libtnb/sqlite; its pool's settings stay as
// they are, and it stays the caller's to close.
func Gorm(db *gorm.DB) gormstore.Source { return gormstore.CallersGorm(driver, db) }

var driver = gormstore.Driver{Dialect: "sqlite", Reply: reply}

func reply(err error) (gormstore.Reply, bool) {
	var refused interface {
		error
		Code() int
	}
	if !errors.As(err, &refused) {
		return gormstore.Reply{}, false
	}
	return gormstore.Reply{Number: refused.Code(), Message: refused.Error()}, true
}
