package operate_test

import (
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

var (
	address = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\|$")
	columns = regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|")
)

// databases.md names forms that are taken, and every column of the tables and no other.
func TestDatabasesPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("databases.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n### ")
	forms := address.FindAllStringSubmatch(parts[0], -1)
	if len(forms) < 9 {
		t.Errorf("%d addresses found: does the pattern still find them?", len(forms))
	}
	for _, form := range forms {
		if err := anystore.Source(form[1]).Err(); err != nil {
			t.Errorf("%s: %v", form[1], err)
		}
	}
	dsn := dbtest.MySQL(t)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	store, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := migrations.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts[1:] {
		table, _, _ := strings.Cut(part, "\n")
		var named []string
		for _, row := range columns.FindAllStringSubmatch(part, -1) {
			named = append(named, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
		}
		var have string
		err := db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(column_name SEPARATOR ' ') "+
			"FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?", table).Scan(&have)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		want := strings.Fields(have)
		slices.Sort(want)
		slices.Sort(named)
		if !slices.Equal(named, want) {
			t.Errorf("%s: the page names\n%v\nthe table has\n%v", table, named, want)
		}
	}
	if len(parts) != 7 {
		t.Errorf("%d tables on the page, want 6", len(parts)-1)
	}
}
