package gormstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	"github.com/transmsg/transmsg/store/storetest"
)

// TestMain looks for what was left running, but for the goroutine that gorm starts for its cache of
// prepared statements and never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// servers are the databases that every behaviour is tested on.
var servers = []struct {
	name string
	dsn  func(dbtest.TB) string
}{
	{"mysql", dbtest.MySQL},
	{"postgres", dbtest.Postgres},
	{"sqlite", func(tb dbtest.TB) string { return "sqlite:" + dbtest.SQLite(tb) }},
}

// migrated opens a store on the dsn with its schema in place.
func migrated(t *testing.T, dsn string, o gormstore.Options) *gormstore.Store {
	t.Helper()
	o.SkipSchemaCheck = true
	if o.InsertTimeout == 0 {
		o.InsertTimeout = time.Minute // SQLite is slow under the race detector
	}
	s, err := anystore.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := migrations.Up(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance gives each of the suite's tests tables of its own by a prefix: that is
// cheaper than databases, and tests the prefix. A SQLite file has one writer, so there each
// test has its own.
func TestConformance(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			dsn := server.dsn(t)
			var n atomic.Int64
			storetest.Run(t, func(t *testing.T) storetest.Store {
				dsn := dsn
				if server.name == "sqlite" {
					dsn = server.dsn(t)
				}
				return migrated(t, dsn, gormstore.Options{Prefix: fmt.Sprintf("t%d_", n.Add(1))})
			})
		})
	}
}
