package gormstore_test

import (
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/libtnb/sqlite"

	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/storetest"
)

// servicePool is a pool as a service has it: no setting of the store's.
func servicePool(t testing.TB, server, dsn string) *sql.DB {
	t.Helper()
	driver := map[string]string{"mysql": "mysql", "postgres": "pgx", "sqlite": sqlite.DriverName}[server]
	if server == "sqlite" {
		dsn = "file:" + dsn[len("sqlite:"):] + "?_txlock=immediate&_pragma=busy_timeout(2000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestInboxConformance(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			dsn := server.dsn(t)
			var n atomic.Int64
			storetest.RunInbox(t, func(t *testing.T) storetest.InboxStore {
				dsn := dsn
				if server.name == "sqlite" {
					dsn = server.dsn(t)
				}
				s := migrated(t, dsn, gormstore.Options{Prefix: fmt.Sprintf("i%d_", n.Add(1))})
				return storetest.InboxStore{Inbox: s, DB: servicePool(t, server.name, dsn)}
			})
		})
	}
}

func TestLettersConformance(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			dsn := server.dsn(t)
			var n atomic.Int64
			storetest.RunLetters(t, func(t *testing.T) storetest.Letters {
				dsn := dsn
				if server.name == "sqlite" {
					dsn = server.dsn(t)
				}
				return migrated(t, dsn, gormstore.Options{Prefix: fmt.Sprintf("l%d_", n.Add(1))})
			})
		})
	}
}
