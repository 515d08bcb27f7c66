package transmsgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	litestore "github.com/transmsg/transmsg/store/sqlite"
)

// settleTimeout bounds how long an assertion waits for results to be written.
const settleTimeout = 10 * time.Second

// maxConns is above what the publisher and one transaction use at the same time.
const maxConns = 8

// Env is one test's publisher, database and broker. Make it with [New].
type Env struct {
	// Publisher is real; its service is "test".
	Publisher *publisher.Publisher
	// Broker is scripted; without a script it acks everything.
	Broker *Broker
	// DB and Gorm are the same SQLite database, for the business tables and
	// transactions of the code under test.
	DB   *sql.DB
	Gorm *gorm.DB

	store  *gormstore.Store
	misuse *misuse
}

// New returns an Env that is closed when the test ends.
func New(tb testing.TB) *Env {
	tb.Helper()
	past := &misuse{tb: tb, open: map[string]string{}}
	db, gdb := open(tb, past)
	own, err := migrations.Open(tb.Context(), litestore.Gorm(gdb), gormstore.Options{})
	if err != nil {
		tb.Fatalf("transmsgtest: open store: %v", err)
	}
	env := &Env{Broker: &Broker{}, DB: db, Gorm: gdb, store: own, misuse: past}
	env.Publisher, err = publisher.Open(publisher.Config{
		Service: "test", Store: store{Store: own, misuse: past}, Sender: env.Broker,
	})
	if err != nil {
		tb.Fatalf("transmsgtest: open publisher: %v", err)
	}
	tb.Cleanup(func() { env.close(tb) })
	return env
}

// open opens a database of the test's own. It is a file, since its connections must see the
// same tables, and a transaction's connection is not the one of a call past it.
func open(tb testing.TB, past *misuse) (*sql.DB, *gorm.DB) {
	tb.Helper()
	known, err := sql.Open(sqlite.DriverName, "")
	if err != nil {
		tb.Fatalf("transmsgtest: open database: %v", err)
	}
	db := sql.OpenDB(connector{
		driver: known.Driver(), misuse: past,
		dsn: "file:" + (&url.URL{Path: filepath.Join(tb.TempDir(), "test.db")}).EscapedPath() + "?_txlock=immediate" +
			"&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)",
	})
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	gdb, err := gorm.Open(sqlite.New(sqlite.Config{Conn: db}),
		&gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true})
	if err := errors.Join(err, known.Close()); err != nil {
		tb.Fatalf("transmsgtest: open database: %v", err)
	}
	return db, gdb
}

func (e *Env) close(tb testing.TB) {
	tb.Helper()
	e.misuse.end()
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	if err := e.Publisher.Close(ctx); err != nil {
		tb.Errorf("transmsgtest: close publisher: %v", err)
	}
	if err := e.store.Close(); err != nil {
		tb.Errorf("transmsgtest: close store: %v", err)
	}
	if err := e.DB.Close(); err != nil {
		tb.Errorf("transmsgtest: close database: %v", err)
	}
}

// RequireSent fails the test unless exactly one message to this exchange and routing key
// has been sent, and returns it.
func (e *Env) RequireSent(tb testing.TB, exchange, routingKey string) model.Message {
	tb.Helper()
	var found []model.Message
	for _, m := range e.Broker.Sent() {
		if m.Exchange == exchange && m.RoutingKey == routingKey {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		tb.Fatalf("transmsgtest: %d messages sent to %q with key %q, want 1; sent: %s",
			len(found), exchange, routingKey, e.describe())
	}
	return found[0]
}

// RequireNothingSent fails the test if any message has been sent.
func (e *Env) RequireNothingSent(tb testing.TB) {
	tb.Helper()
	if len(e.Broker.Sent()) > 0 {
		tb.Fatalf("transmsgtest: want nothing sent; sent: %s", e.describe())
	}
}

// RequireStored fails the test unless exactly one row for this exchange and routing key
// is stored, and returns it, without its payload. Outcomes that are known are written
// first, so that the row shows what became of its send.
func (e *Env) RequireStored(tb testing.TB, exchange, routingKey string) model.TransMessage {
	tb.Helper()
	rows := e.rows(tb, model.Filter{Exchange: exchange, RoutingKey: routingKey})
	if len(rows) != 1 {
		tb.Fatalf("transmsgtest: %d rows stored for %q with key %q, want 1", len(rows), exchange, routingKey)
	}
	return rows[0]
}

// RequireNothingStored fails the test if any row is stored: everything published was
// acked, or nothing was published.
func (e *Env) RequireNothingStored(tb testing.TB) {
	tb.Helper()
	for _, r := range e.rows(tb, model.Filter{}) {
		tb.Errorf("transmsgtest: want nothing stored; %s to %q with key %q is %s (%s)",
			r.ID, r.Exchange, r.RoutingKey, r.Status, r.LastCode)
	}
	if tb.Failed() {
		tb.FailNow()
	}
}

func (e *Env) rows(tb testing.TB, f model.Filter) []model.TransMessage {
	tb.Helper()
	e.settle(tb)
	rows, err := e.store.List(context.Background(), f)
	if err != nil {
		tb.Fatalf("transmsgtest: list rows: %v", err)
	}
	return rows
}

// settle waits until every outcome that is known has been written.
func (e *Env) settle(tb testing.TB) {
	tb.Helper()
	for deadline := time.Now().Add(settleTimeout); e.Publisher.Stats().Unsettled > 0; {
		if time.Now().After(deadline) {
			tb.Fatalf("transmsgtest: results not written within %v: is a transaction still open?", settleTimeout)
		}
		time.Sleep(time.Millisecond)
	}
}

func (e *Env) describe() string {
	var b strings.Builder
	for _, m := range e.Broker.Sent() {
		fmt.Fprintf(&b, "\n  %s to %q with key %q", m.ID, m.Exchange, m.RoutingKey)
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return b.String()
}
