package gormstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// identityOf opens the tables, migrated, and asks for their identity.
func identityOf(t *testing.T, dsn, prefix string) string {
	t.Helper()
	s, err := anystore.Open(t.Context(), dsn, gormstore.Options{Prefix: prefix, SkipSchemaCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := migrations.Up(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	id, err := s.Identity(t.Context())
	if err != nil || len(id) != 16 {
		t.Fatalf("identity %q, %v", id, err)
	}
	return id
}

// E9: a lock's key names the database: replicas agree whatever host name they connect by,
// and other databases and prefixes differ.
func TestE9_IdentityOfTheDatabase(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(dbtest.TB) string{"mysql": dbtest.MySQL, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := fresh(t), fresh(t)
			id := identityOf(t, one, "")
			for alias, dsn := range map[string]string{
				"the same":                 one,
				"another name of the host": strings.Replace(one, "127.0.0.1", "localhost", 1),
			} {
				if got := identityOf(t, dsn, ""); got != id {
					t.Errorf("%s: identity %s, want %s", alias, got, id)
				}
			}
			if one == strings.Replace(one, "127.0.0.1", "localhost", 1) {
				t.Errorf("%s has no other name", one)
			}
			if other := identityOf(t, two, ""); other == id {
				t.Error("two databases have one identity")
			}
			if other := identityOf(t, one, "other_"); other == id {
				t.Error("two prefixes have one identity")
			}
		})
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		id := identityOf(t, "sqlite:"+dir+"/a.db", "")
		if err := os.Symlink(dir, dir+"/link"); err != nil {
			t.Fatal(err)
		}
		if got := identityOf(t, "sqlite:"+dir+"/link/a.db", ""); got != id {
			t.Errorf("the same file by another path: identity %s, want %s", got, id)
		}
		if identityOf(t, "sqlite:"+dir+"/b.db", "") == id {
			t.Error("two files have one identity")
		}
	})
}
