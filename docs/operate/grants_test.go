package operate_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

var roles = []string{"app", "publisher", "consumer", "compensator", "operator", "viewer", "migrator"}

// database is one server with the users of grants.md.
type database struct {
	section string // its heading in grants.md
	driver  string
	fresh   func(dbtest.TB) string
	// login returns the DSN for another user.
	login func(t *testing.T, dsn, user, password string) string
	// drop are the statements that remove a user.
	drop []string
}

var databases = []database{
	{
		section: "MySQL and MariaDB", driver: "mysql", fresh: dbtest.MySQL,
		login: func(t *testing.T, dsn, user, password string) string {
			config, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			config.User, config.Passwd = user, password
			return config.FormatDSN()
		},
		drop: []string{"DROP USER %s"},
	},
	{
		section: "PostgreSQL", driver: "pgx", fresh: dbtest.Postgres,
		login: func(t *testing.T, dsn, user, password string) string {
			u, err := url.Parse(dsn)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword(user, password)
			return u.String()
		},
		drop: []string{"DROP OWNED BY %s", "DROP ROLE %s"},
	},
}

// world is a fresh schema in which the SQL of grants.md was run, with names of its own.
type world struct {
	t     *testing.T
	db    *database
	admin string
	id    string // begins every user's name
}

func newWorld(t *testing.T, db *database) *world {
	t.Helper()
	w := &world{t: t, db: db, admin: db.fresh(t), id: "transmsg_test_" + strings.ToLower(rand.Text()[:8])}
	blocks := w.blocks()
	if len(blocks) != 2 {
		t.Fatalf("section %q has %d SQL blocks, want 2: before and after the migration", db.section, len(blocks))
	}
	// After the schema's own clean-up is registered, so that it runs before.
	t.Cleanup(w.dropUsers)
	w.exec(w.admin, blocks[0])
	migrator := w.open("migrator", gormstore.Options{SkipSchemaCheck: true})
	if _, err := migrations.Up(t.Context(), migrator); err != nil {
		t.Fatalf("migrate as shop_migrator: %v", err)
	}
	w.exec(w.admin, blocks[1])
	return w
}

// user is the name of a role's user, at most 32 bytes as MySQL demands.
func (w *world) user(role string) string { return w.id + "_" + role[:3] }

// password stands in for change-me.
func (w *world) password() string { return "p-" + w.id }

var fence = regexp.MustCompile("(?s)```sql\n(.*?)```")

// blocks returns the SQL of the database's section, with our names.
func (w *world) blocks() []string {
	w.t.Helper()
	page, err := os.ReadFile("grants.md")
	if err != nil {
		w.t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+w.db.section+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := []string{"change-me", w.password()}
	for _, role := range roles {
		names = append(names, "shop_"+role, w.user(role))
	}
	if config, err := mysql.ParseDSN(w.admin); w.db.driver == "mysql" && err == nil {
		names = append(names, "shop.", config.DBName+".")
	}
	var out []string
	for _, found := range fence.FindAllStringSubmatch(section, -1) {
		out = append(out, strings.NewReplacer(names...).Replace(found[1]))
	}
	return out
}

// exec runs statements that end with a semicolon and a newline.
func (w *world) exec(dsn, statements string) {
	w.t.Helper()
	db := w.sql(dsn)
	for statement := range strings.SplitSeq(statements, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(w.t.Context(), statement); err != nil {
			w.t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (w *world) sql(dsn string) *sql.DB {
	w.t.Helper()
	db, err := sql.Open(w.db.driver, dsn)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	return db
}

// as returns the DSN of a role.
func (w *world) as(role string) string { return w.db.login(w.t, w.admin, w.user(role), w.password()) }

// open opens the store as a role.
func (w *world) open(role string, o gormstore.Options) *gormstore.Store {
	w.t.Helper()
	s, err := anystore.Open(w.t.Context(), w.as(role), o)
	if err != nil {
		w.t.Fatalf("open as shop_%s: %v", role, err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

func (w *world) dropUsers() {
	db, err := sql.Open(w.db.driver, w.admin)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer db.Close()
	for _, role := range roles {
		for _, statement := range w.db.drop {
			// Detached: the test's own context has ended by now.
			if _, err := db.ExecContext(context.Background(), fmt.Sprintf(statement, w.user(role))); err != nil {
				w.t.Errorf(statement+": %v", w.user(role), err)
			}
		}
	}
}

// each runs a test on every database.
func each(t *testing.T, test func(*testing.T, *world)) {
	for _, db := range databases {
		t.Run(db.section, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, &db))
		})
	}
}

func draft() model.Draft {
	m := model.Message{ID: model.NewID(), Exchange: "orders", RoutingKey: "order.placed", Body: []byte("{}")}
	return model.Draft{TransMessage: model.NewTransMessage("orders", &m, false)}
}

// must fails the test when a role may not do its work.
func must(t *testing.T, act string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", act, err)
	}
}

func TestRolesCanDoTheirWork(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		appendAsApp(t, w)
		sendAs(t, w.open("publisher", gormstore.Options{}))
		sendAs(t, w.open("compensator", gormstore.Options{}))
		consumeAs(t, w)
		lookAs(t, w.open("viewer", gormstore.Options{}))
		lookAs(t, w.open("operator", gormstore.Options{}))
		_, err := migrations.Up(t.Context(), w.open("migrator", gormstore.Options{}))
		must(t, "migrate again", err)
		// Purging is the compensator's; repair is the operator's.
		w.exec(w.as("compensator"), "DELETE FROM trans_message_event WHERE at < 0")
		purged, err := w.open("compensator", gormstore.Options{}).PurgeInbox(t.Context(), time.Millisecond, 10)
		must(t, "purge the inbox", err)
		if purged == 0 {
			t.Error("nothing of the inbox was purged")
		}
		w.exec(w.as("operator"), "UPDATE trans_message SET status = 'READY', epoch = epoch + 1;\n"+
			"DELETE FROM trans_message WHERE status = 'DEAD'")
		repairLettersAs(t, w)
	})
}

// repairLettersAs collects dead letters as the compensator, sends one back as the operator, erases and reads it, and
// purges.
func repairLettersAs(t *testing.T, w *world) {
	t.Helper()
	ctx, collector, operator := t.Context(), w.open("compensator", gormstore.Options{}), w.open("operator",
		gormstore.Options{})
	m := model.Message{ID: model.NewID()}
	r := model.Rejected{Source: "q", Properties: model.EncodeWire(&m), Body: []byte("x")}
	l := r.Letter("shop")
	must(t, "collect", collector.Collect(ctx, []model.DeadLetter{l}))
	a := model.LetterAct{LetterSelection: model.LetterSelection{IDs: []string{l.ID}}, Actor: "ann"}
	body := []byte("y")
	must(t, "edit a dead letter", operator.EditLetter(ctx, l.ID, model.LetterEdit{Body: &body, Actor: "ann"}))
	n, _, err := operator.ReplayLetters(ctx, a, model.LetterReplay{})
	must(t, "replay a dead letter", err)
	if n != 1 {
		t.Errorf("replayed %d dead letters, want 1", n)
	}
	_, err = operator.LetterGroups(ctx, model.LetterFilter{Status: model.LetterReplayed})
	must(t, "groups of dead letters", err)
	_, err = operator.EraseLetters(ctx, a)
	must(t, "erase a dead letter", err)
	_, err = operator.ImportLetters(ctx, []model.DeadLetter{{
		ID: model.NewID(), Status: model.LetterOpen,
		CreatedAt: 1,
	}}, "ann")
	must(t, "import a dead letter", err)
	_, _, _, err = w.open("viewer", gormstore.Options{}).Letter(ctx, l.ID)
	must(t, "show a dead letter", err)
	_, err = collector.PurgeLetters(ctx, time.Millisecond, 10)
	must(t, "purge dead letters", err)
}

// appendAsApp stores a message in a transaction of the service, as publisher.Tx does.
func appendAsApp(t *testing.T, w *world) {
	t.Helper()
	tx, err := w.sql(w.as("app")).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, rows := w.open("publisher", gormstore.Options{}), []model.Draft{draft(), draft()}
	_, err = store.InsertTx(t.Context(), tx, rows, nil)
	must(t, "insert in a transaction", err)
	n, err := store.ExtendTx(t.Context(), tx, []string{rows[0].ID, rows[1].ID}, time.Minute)
	must(t, "lease anew in a transaction", err)
	if n != 2 {
		t.Errorf("leased %d rows anew, want 2", n)
	}
	must(t, "commit", tx.Commit())
}

// TestA3_AUserWhoMayNotReadBodiesStoresAnIDAgain: the row that exists is read by the publisher's
// user, in the service's transaction.
func TestA3_AUserWhoMayNotReadBodiesStoresAnIDAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		store, rows := w.open("publisher", gormstore.Options{}), []model.Draft{draft(), draft()}
		_, err := store.Insert(t.Context(), rows)
		must(t, "insert", err)
		rows = append(rows, draft())
		rows[1].Payload = []byte("other")
		tx, err := w.sql(w.as("app")).BeginTx(t.Context(), nil)
		must(t, "begin", err)
		stored, err := store.InsertTx(t.Context(), tx, rows, nil)
		must(t, "insert again in a transaction", err)
		want := []model.Stored{model.StoredBefore, model.StoredOther, model.StoredNew}
		if !slices.Equal(stored, want) {
			t.Errorf("got %v, want %v", stored, want)
		}
		must(t, "commit", tx.Commit())
	})
}

// sendAs takes rows through everything that a sender does with them.
func sendAs(t *testing.T, s *gormstore.Store) {
	t.Helper()
	ctx := t.Context()
	rows := []model.Draft{draft(), draft(), draft()}
	for i := range rows {
		rows[i].Delay = -time.Hour
	}
	_, err := s.Insert(ctx, rows)
	must(t, "insert", err)
	_, err = s.Insert(ctx, rows[:1]) // existing ids are read and compared
	must(t, "insert again", err)
	_, err = s.ReadBack(ctx, []string{rows[0].ID})
	must(t, "read back", err)
	_, err = s.Renew(ctx, "me", []model.RowKey{{ID: rows[0].ID, Epoch: rows[0].Epoch}}, time.Minute)
	must(t, "renew", err)
	_, err = s.Services(ctx)
	must(t, "services", err)
	_, err = s.Stats(ctx, "orders")
	must(t, "stats", err)
	claimed, err := s.Claim(ctx, model.Claim{
		Service: "orders", Instance: "me", Lease: time.Minute, MaxRows: 10, MaxBytes: 1 << 20,
	})
	must(t, "claim", err)
	if len(claimed.Rows) < 2 {
		t.Fatalf("claimed %d rows, want at least 2", len(claimed.Rows))
	}
	failed, gone := claimed.Rows[0], rows[0].TransMessage
	settle := func(row model.TransMessage) model.Settlement {
		return model.Settlement{
			ID: row.ID, Version: row.Version, Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1, Instance: "me",
			Outcome: model.Outcome{Kind: model.Returned, Code: "312", Text: "NO_ROUTE"},
		}
	}
	settled, err := s.Settle(ctx, []model.Settlement{settle(failed)})
	must(t, "settle", err)
	if len(settled) == 1 && settled[0] != model.SettledDone {
		t.Errorf("settle = %v, want done", settled)
	}
	_, err = s.Delete(ctx, []model.RowKey{{ID: gone.ID}, {ID: claimed.Rows[1].ID}})
	must(t, "delete", err)
	restored, err := s.Restore(ctx, []model.TransMessage{gone}, []model.Settlement{settle(gone)})
	must(t, "restore", err)
	if len(restored) == 1 && !restored[0] {
		t.Error("the row was not restored")
	}
}

// consumeAs does what consumer/effect does with a message that comes twice, once redelivered.
func consumeAs(t *testing.T, w *world) {
	t.Helper()
	store, db := w.open("consumer", gormstore.Options{}), w.sql(w.as("consumer"))
	r := model.InboxRecord{Consumer: "payments", Key: []byte("x"), Mark: 1}
	count, err := store.CountRedelivery(t.Context(), r)
	must(t, "count a redelivery", err)
	if count != 1 {
		t.Errorf("counted %d, want 1", count)
	}
	for _, want := range []bool{true, false} {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, "begin", err)
		first, err := store.RecordTx(t.Context(), tx, r, time.Second)
		must(t, "record", err)
		held, err := store.RecordedTx(t.Context(), tx, r)
		must(t, "look at the record", err)
		must(t, "commit", tx.Commit())
		if first != want || !held {
			t.Errorf("first %t, held %t, want %t and held", first, held, want)
		}
	}
	done, err := store.Recorded(t.Context(), r)
	must(t, "recorded", err)
	if !done {
		t.Error("not recorded")
	}
}

// lookAs reads everything that the verbs show.
func lookAs(t *testing.T, s *gormstore.Store) {
	t.Helper()
	list, err := s.List(t.Context(), model.Filter{})
	must(t, "list", err)
	if len(list) == 0 {
		t.Fatal("no rows to look at")
	}
	_, _, err = s.Show(t.Context(), list[0].ID)
	must(t, "show", err)
	_, err = s.Stats(t.Context(), "")
	must(t, "stats", err)
}

func TestRolesCanDoNoMore(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exec(w.admin, "CREATE TABLE orders (number INT);\n")
		const (
			drop   = "DROP TABLE trans_message"
			alter  = "ALTER TABLE trans_message ADD COLUMN more INT"
			orders = "SELECT * FROM orders"
			forge  = "UPDATE trans_message_event SET actor = 'somebody else'"
			forget = "DELETE FROM trans_message_event"
			change = "UPDATE trans_message SET status = 'DEAD'"
			body   = "SELECT payload FROM trans_message"
			// Who may change records can make a message seem done, or be done again.
			doneBefore = "UPDATE trans_inbox SET record_key = 'x'"

			schema = "INSERT INTO transmsg_schema_version (version_id, is_applied) VALUES (9, TRUE)"
		)
		for role, refused := range map[string][]string{
			"app":         {drop, alter, orders, body, change, forge, forget, "DELETE FROM trans_message", schema},
			"publisher":   {drop, alter, orders, forge, forget, schema},
			"consumer":    {drop, alter, orders, body, forge, forget, "DELETE FROM trans_inbox", doneBefore, schema},
			"compensator": {drop, alter, orders, forge, doneBefore, schema},
			"operator":    {drop, alter, orders, forge, forget, "DELETE FROM trans_dead_letter", schema},
			"viewer":      {drop, alter, orders, forge, forget, change, "DELETE FROM trans_message", schema},
			"migrator":    {orders},
		} {
			db := w.sql(w.as(role))
			for _, statement := range refused {
				_, err := db.ExecContext(t.Context(), statement)
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), "denied") &&
					!strings.Contains(err.Error(), "must be owner") {
					t.Errorf("shop_%s: %s = %v, want a refusal", role, statement, err)
				}
			}
		}
	})
}
