package compensator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

// closing is a rig whose broker acks the key good and closes the connection at any other message,
// which no row's own backoff makes due again.
func closing(t *testing.T) (*rig, compensator.Config) {
	t.Helper()
	t.Parallel()
	peer, err := scriptedbroker.New(scriptedbroker.Options{OnPublish: func(m *scriptedbroker.Publish) {
		if m.RoutingKey == "good" {
			_ = m.Ack(false)
		} else {
			_ = m.Conn.Close(541, "INTERNAL_ERROR")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, "mysql", dbtest.MySQL(t), amqptest.VHost(t))
	cfg := r.config()
	cfg.Sender = r.sender(peer.Addr(), nil)
	cfg.Policy = model.Policy{
		BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: model.None, MaxAttempts: 1, MinDeadAge: model.None,
	}
	return r, cfg
}

// round lets the rows be sent once more, at once and alone, and returns them as they are then.
func (r *rig) round(ids []string) []model.TransMessage {
	r.t.Helper()
	rows := make([]model.TransMessage, len(ids))
	before := make([]int, len(ids))
	for i, id := range ids {
		row, _ := r.show(id)
		before[i] = row.Version
	}
	r.exec("UPDATE trans_message SET next_attempt_at = 0, last_code = 'suspect' WHERE id IN " + quoted(ids))
	eventually(r.t, "each row was sent and settled", func() bool {
		for i, id := range ids {
			if rows[i], _ = r.show(id); rows[i].Version < before[i]+2 || rows[i].ClaimedBy != "" {
				return false
			}
		}
		return true
	})
	return rows
}

// healthy lets the broker take a message.
func (r *rig) healthy() {
	r.t.Helper()
	id := r.put(1, "orders", "ex", "good")[0]
	eventually(r.t, "a healthy send", func() bool {
		list, err := r.store.List(r.t.Context(), model.Filter{RoutingKey: "good"})
		r.must(err)
		return len(list) == 0 || list[0].ID != id
	})
}

// E5: a broker in trouble closes the connection under whatever it is sent. Rows of two routes that
// meet this in one run are not charged; a row that is the only one is.
func TestE5_SuspectsOfTwoRoutesAcquitEachOther(t *testing.T) {
	r, cfg := closing(t)
	ids := append(r.put(2, "orders", "ex", "a"), r.put(1, "orders", "ex", "b")...)
	r.exec("UPDATE trans_message SET next_attempt_at = next_attempt_at + 3600000")
	c := start(t, cfg)
	for range 3 {
		for _, row := range r.round(ids) {
			if row.Status != model.Ready || row.Attempts != 0 || row.LastCode != model.CodeSuspect || row.Closes != 0 ||
				!strings.HasPrefix(row.LastError, "541") {
				t.Fatalf("acquitted: %+v", row)
			}
		}
	}
	for _, row := range r.round(ids[:2]) {
		if row.Status != model.Dead || row.Attempts != 1 || row.LastCode != model.CodeOther {
			t.Errorf("of one route: %+v", row)
		}
	}
	c.drained(t)
}

// E5: of two poison rows each acquits the other, so one that has closed its connection in three
// runs over ten minutes, each time between two healthy sends, goes DEAD.
func TestE5_PoisonRowsDoNotAcquitEachOtherForEver(t *testing.T) {
	r, cfg := closing(t)
	ids := append(r.put(1, "orders", "ex", "a"), r.put(1, "orders", "ex", "b")...)
	r.exec("UPDATE trans_message SET next_attempt_at = next_attempt_at + 3600000")
	c := start(t, cfg)
	sent := func(closes int) {
		t.Helper()
		for _, row := range r.round(ids) {
			if row.Status != model.Ready || row.Attempts != 0 || row.Closes != closes {
				t.Fatalf("want READY with %d closes: %+v", closes, row)
			}
		}
	}
	for closes := 1; closes <= 4; closes++ { // often enough after the third, and not long enough
		r.healthy()
		sent(closes)
	}
	r.exec("UPDATE trans_message SET closes_since = closes_since - 600000")
	sent(4) // nothing healthy since the last one: the broker may be in trouble
	r.healthy()
	for _, row := range r.round(ids) {
		if row.Status != model.Dead || row.LastCode != model.CodeOther ||
			!strings.Contains(row.LastError, "between two healthy sends") {
			t.Errorf("want DEAD: %+v", row)
		}
	}
	c.drained(t)
}
