package operate_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// The SQL of migrate-from-outbox.md moves what is unsent, byte for byte, as messages that
// pass the checks before a send.
func TestOutboxRowsBecomeMessages(t *testing.T) {
	t.Parallel()
	tables := map[string]string{
		"MySQL and MariaDB": "CREATE TABLE outbox (id CHAR(36), order_number VARCHAR(50), topic VARCHAR(100), " +
			"payload JSON, created_at DATETIME, published_at DATETIME)",
		"PostgreSQL": "CREATE TABLE outbox (id UUID, order_number TEXT, topic TEXT, payload JSON, " +
			"created_at TIMESTAMPTZ, published_at TIMESTAMPTZ)",
	}
	for _, server := range databases {
		t.Run(server.section, func(t *testing.T) {
			t.Parallel()
			dsn := server.fresh(t)
			store, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			if _, err := migrations.Up(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(server.driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			// One session, since the page's transaction is one.
			db.SetMaxOpenConns(1)
			const id = "0190A3C4-7B1E-7CC3-98C4-DC0C0C07398F"
			for statement := range strings.SplitSeq(tables[server.section]+";\n"+
				"INSERT INTO outbox VALUES ('"+id+"', '4711', 'order.placed', '{\"größe\":1}', '2026-01-01', NULL);\n"+
				"INSERT INTO outbox VALUES ('"+model.NewID()+"', '1', 'sent', '{}', '2026-01-01', '2026-01-01');\n"+
				moveSQL(t, server.section), ";\n") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			var body string // MySQL keeps JSON in a form of its own, the others as it was written
			err = db.QueryRowContext(t.Context(), "SELECT payload FROM outbox WHERE id = '"+id+"'").Scan(&body)
			if err != nil {
				t.Fatal(err)
			}
			checkMoved(t, store, strings.ToLower(id), body)
			var left int
			err = db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM outbox WHERE published_at IS NULL").Scan(&left)
			if err != nil || left != 0 {
				t.Errorf("left in the outbox: %d, %v", left, err)
			}
		})
	}
}

func checkMoved(t *testing.T, store *gormstore.Store, id, body string) {
	t.Helper()
	claimed, err := store.Claim(t.Context(), model.Claim{
		Service: "orders", Instance: "me", Lease: time.Minute, MaxRows: 10, MaxBytes: 1 << 20,
	})
	if err != nil || len(claimed.Rows) != 1 {
		t.Fatalf("claimed %d rows, %v; want the unsent one", len(claimed.Rows), err)
	}
	row := claimed.Rows[0]
	m, err := row.Message()
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Check(&m, model.Limits{}); err != nil {
		t.Errorf("check: %v", err)
	}
	if m.ID != id || m.Key != "4711" || m.Exchange != "orders" || m.RoutingKey != "order.placed" ||
		string(m.Body) != body || !strings.Contains(body, "größe") || m.Properties.ContentType != "application/json" {
		t.Errorf("moved: %+v, body %s", m, m.Body)
	}
	if want := len(row.Payload) + len(row.Properties); row.Size != want {
		t.Errorf("size = %d, want %d", row.Size, want)
	}
}

// moveSQL is the block below the page's heading for the server.
func moveSQL(t *testing.T, server string) string {
	t.Helper()
	page, err := os.ReadFile("migrate-from-outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+server+"\n")
	found := fence.FindStringSubmatch(section)
	if found == nil {
		t.Fatalf("no SQL for %s", server)
	}
	return found[1]
}
