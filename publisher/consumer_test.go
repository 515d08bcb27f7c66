package publisher_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// applyOrder is the example consumer of docs/operate/consume.md: the effect of a message and
// the revision that it told of are written in one statement, and an older one changes nothing.
func applyOrder(ctx context.Context, db *sql.DB, d amqp.Delivery) (applied bool, err error) {
	revision, _ := d.Headers[model.HeaderRevision].(int64)
	res, err := db.ExecContext(ctx, "INSERT INTO order_view (id, status, revision) VALUES (?1, ?2, ?3) "+
		"ON CONFLICT (id) DO UPDATE SET status = ?2, revision = ?3 WHERE revision < ?3",
		d.CorrelationId, string(d.Body), revision)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// An older state that arrives late, as after a retry, or again changes nothing at a consumer
// that looks at the revision. The time of storing is there only when asked for.
func TestF3_ConsumersDropOlderRevisions(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		begin := time.Now().UnixMilli()
		stamped, err := publisher.Open(publisher.Config{
			Service: "orders", Store: s.store, Sender: s.sender, StampStored: true,
		})
		must(t, err)
		db, err := sql.Open("sqlite", dbtest.SQLite(t))
		must(t, err)
		t.Cleanup(func() { must(t, db.Close()) })
		_, err = db.ExecContext(t.Context(), "CREATE TABLE order_view (id TEXT PRIMARY KEY, status TEXT, "+
			"revision INTEGER)")
		must(t, err)
		// As if revision 1 had been returned at first and was sent again later.
		for _, m := range []struct {
			pub      *publisher.Publisher
			revision int64
			status   string
			applied  bool
			headers  int
		}{
			{stamped, 2, "paid", true, 2},
			{s.pub, 1, "placed", false, 1},
			{stamped, 3, "shipped", true, 2},
			{s.pub, 3, "shipped", false, 1},
			{s.pub, 0, "no revision", false, 0},
		} {
			r, err := m.pub.Publish(t.Context(), model.Message{
				Exchange: "ex", RoutingKey: "k", Body: []byte(m.status), Revision: m.revision,
				Properties: model.Properties{CorrelationID: "order-7"},
			})
			must(t, err)
			must(t, r.Err(t.Context()))
			got, err := s.broker.Collect(t.Context(), "q1", 1)
			must(t, err)
			applied, err := applyOrder(t.Context(), db, got[0])
			must(t, err)
			at, stamps := got[0].Headers[model.HeaderStoredAt].(int64)
			if applied != m.applied || len(got[0].Headers) != m.headers || stamps != (m.pub == stamped) ||
				stamps && (at < begin || at > time.Now().UnixMilli()) {
				t.Errorf("revision %d: applied %v, headers %v", m.revision, applied, got[0].Headers)
			}
		}
		var status string
		must(t, db.QueryRowContext(t.Context(), "SELECT status FROM order_view").Scan(&status))
		if status != "shipped" {
			t.Errorf("the consumer's view is %q, want the newest", status)
		}
		must(t, stamped.Close(t.Context()))
	})
}
