package compensator_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// E8: rows that are committed behind the cursor of a long drain are sent after a few
// batches, not at its end.
func TestE8_RowsBehindTheCursorDoNotWaitForTheEndOfADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		store.put(t, 2000, "orders", nil)
		var behind []string
		claims, sent := 0, 0
		store.before = func(model.Claim) {
			time.Sleep(100 * time.Millisecond)
			if claims++; claims == 10 {
				behind = store.put(t, 3, "orders", func(r *model.TransMessage) { r.NextAttemptAt -= 60_000 })
				sent = sender.total()
			}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 10, Interval: 200 * time.Millisecond})
		time.Sleep(time.Minute)
		r.drained(t)
		once(t, sender, behind)
		for i, id := range sender.order {
			for _, b := range behind {
				if id == b && i > sent+80 {
					t.Errorf("a row behind the cursor was sent after %d others, want at most 8 batches of 10", i-sent)
				}
			}
		}
		if len(sender.order) != 2003 {
			t.Errorf("%d sent, want 2003", len(sender.order))
		}
	})
}

// slowStore has a link that carries so many bytes a second: what takes longer than the
// time of a call fails after that time.
type slowStore struct {
	*fakeStore

	perSecond int
}

func (s *slowStore) Claim(ctx context.Context, c model.Claim) (model.Claimed, error) {
	s.mu.Lock()
	bytes, rows, first := 0, 0, ""
	for _, r := range s.due(c.Service) {
		if r.NextAttemptAt < c.After.DueAt || (r.NextAttemptAt == c.After.DueAt && r.ID <= c.After.ID) {
			continue
		}
		if rows == c.MaxRows || (rows > 0 && int64(bytes+r.Size) > c.MaxBytes) {
			break
		}
		if rows++; rows == 1 {
			first = r.ID
		}
		bytes += r.Size
	}
	s.mu.Unlock()
	if c.Bare {
		bytes = 0
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(bytes)*time.Second/time.Duration(s.perSecond))
	defer cancel()
	<-wait.Done()
	if ctx.Err() != nil {
		return model.Claimed{}, &model.UnreadError{ID: first, Rows: rows, Err: ctx.Err()}
	}
	return s.fakeStore.Claim(ctx, c)
}

// E6: on a slow link claims shrink until they pass and grow again; a row that does not pass
// alone is put off, told of, and holds up no other.
func TestE6_ClaimsShrinkAndGrowAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := &slowStore{fakeStore: newStore(), perSecond: 1 << 20}, newSender(), &collector{}
		sized := func(size int) func(*model.TransMessage) {
			return func(r *model.TransMessage) { r.Payload, r.Size = make([]byte, 1), size }
		}
		huge := store.put(t, 1, "orders", func(r *model.TransMessage) { sized(60 << 20)(r); r.NextAttemptAt-- })[0]
		ids := store.put(t, 70, "orders", sized(300<<10))
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		time.Sleep(time.Minute)
		synctest.Wait()
		once(t, sender, ids)
		row, _ := store.row(huge)
		if row.Status != model.Ready || row.LastCode != model.CodeUnread || row.Attempts != 0 || row.Failures == 0 ||
			!strings.Contains(row.LastError, "62914560 bytes cannot be read") || sender.times(huge) != 0 {
			t.Errorf("the row that cannot be read: %+v", row)
		}
		got := alerts.got()
		if len(got) != 1 || got[0].Kind != model.AlertUnread || got[0].Sample.ID != huge {
			t.Errorf("alerts %+v, want one of the row that cannot be read", got)
		}
		store.mu.Lock()
		store.claims, store.perSecond = nil, 1<<30 // the link is mended
		store.mu.Unlock()
		more := store.put(t, 5000, "orders", sized(1<<10))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.drained(t)
		once(t, sender, append(more, huge))
		if n := len(store.claimed()); n > 700 { // one a second, and those that found rows
			t.Errorf("%d claims for 5000 rows, want that they grew to 500", n)
		}
	})
}

// E6 on real servers: the link between compensator and database carries 280 KB a second, a
// claim of everything would take longer than its time and so would one row. The others
// arrive.
func TestE6_SlowLinkToTheDatabase(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		const rows, size = 60, 100 << 10
		put := func(bytes int, body byte) string {
			m, err := model.Normalize(model.Message{
				Exchange: "ex", RoutingKey: "k", Body: []byte(strings.Repeat(string(rune(body)), bytes)),
			}, time.Now(), model.Limits{MaxBody: 8 << 20})
			r.must(err)
			draft := model.Draft{TransMessage: model.NewTransMessage("orders", &m, true)}
			_, err = r.store.Insert(t.Context(), []model.Draft{draft})
			r.must(err)
			return m.ID
		}
		huge := put(4<<20-1000, 'h')
		ids := make([]string, rows)
		for i := range ids {
			ids[i] = put(size, byte('a'+i%20))
		}
		address := regexp.MustCompile(`[\w.]+:\d+`).FindString(r.dsn)
		proxy, err := faultproxy.New(address)
		r.must(err)
		t.Cleanup(func() { _ = proxy.Close() })
		slow, err := anystore.Open(t.Context(), strings.Replace(r.dsn, address, proxy.Addr(), 1), gormstore.Options{})
		r.must(err)
		t.Cleanup(func() { _ = slow.Close() })
		proxy.Limit(faultproxy.ToClient, 280_000)
		cfg, alerts := r.config(), &collector{}
		cfg.Store, cfg.Alerter, cfg.Policy = slow, alerts, model.Policy{}
		c := start(t, cfg)
		r.untilRows(1, 0)
		eventually(t, "the row that cannot be read is told of", func() bool { return len(alerts.got()) > 0 })
		proxy.Limit(faultproxy.ToClient, 0)
		if row, _ := r.show(huge); row.LastCode != model.CodeUnread || row.Attempts != 0 {
			t.Errorf("the row that cannot be read: code %s, %d attempts", row.LastCode, row.Attempts)
		}
		r.exec("UPDATE trans_message SET next_attempt_at = 1 WHERE id IN " + quoted([]string{huge}))
		r.untilRows(0, 0)
		r.must(c.stop())
		r.deliveredOnce("q1", append(ids, huge))
		if a := alerts.got()[0]; a.Kind != model.AlertUnread || a.Sample.ID != huge {
			t.Errorf("alert %+v", a)
		}
	})
}
