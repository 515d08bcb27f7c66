package compensator_test

import (
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/compensator/redislocker"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

func TestDrainsABacklogOfSeveralServices(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		ids := append(r.put(3000, "orders", "ex", "k"), r.put(700, "payments", "ex", "k")...)
		c := start(t, r.config())
		r.untilRows(0, 0)
		c.drained(t)
		r.deliveredOnce("q1", ids)
	})
}

// An unroutable message stays READY with its cause, and is delivered once it is bound.
func TestUnroutableIsDeliveredOnceBound(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		ids := r.put(100, "orders", "ex", "unbound")
		cfg := r.config()
		cfg.Policy.MaxAttempts = 1000
		c := start(t, cfg)
		eventually(t, "every row was returned", func() bool {
			rows, err := r.store.List(t.Context(), model.Filter{Code: model.CodeNoRoute, Limit: 1000})
			r.must(err)
			return len(rows) == len(ids)
		})
		row, events := r.show(ids[0])
		if row.Status != model.Ready || row.Attempts < 1 || len(events) == 0 ||
			events[0].Code != model.CodeNoRoute || events[0].Instance == "" {
			t.Errorf("row %+v with events %+v, want READY with a returned event", row, events)
		}
		r.must(r.Bind("q1", "ex", "unbound"))
		r.untilRows(0, 0)
		c.drained(t)
		r.deliveredOnce("q1", ids)
	})
}

// C66 on real servers: DEAD after the last attempt, one alert for the group, which is
// owed no more, all attempts in the history, nothing sent after it.
func TestC66_DeadAfterMaxAttempts(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		ids := r.put(5, "orders", "ex", "unbound")
		alerts := &collector{}
		cfg := r.config()
		cfg.Alerter, cfg.AlertWindow = alerts, time.Second
		cfg.Policy.MaxAttempts, cfg.Policy.MinDeadAge = 2, model.None
		c := start(t, cfg)
		r.untilRows(0, 5)
		eventually(t, "all five are told", func() bool { return alerts.counts(t, 0)["unbound"] >= 5 })
		c.drained(t)
		for _, a := range alerts.got() {
			if a.Code != model.CodeNoRoute || a.Sample.Attempts != 2 || a.Exchange != "ex" ||
				a.RoutingKey != "unbound" {
				t.Errorf("alert %+v, want 312 after 2 attempts to ex", a)
			}
		}
		if n := alerts.counts(t, time.Second)["unbound"]; n != 5 {
			t.Errorf("told of %d rows, want 5", n)
		}
		for _, id := range ids {
			row, events := r.show(id)
			if row.Status != model.Dead || row.Attempts != 2 || len(events) != 2 || row.ClaimedBy != "" {
				t.Errorf("row %+v, %d events; want DEAD, unclaimed, and 2", row, len(events))
			}
		}
		owed, err := r.store.ClaimDead(t.Context(), model.DeadClaim{Instance: "test", Lease: time.Minute, MaxRows: 10})
		r.must(err)
		if len(owed) != 0 {
			t.Errorf("%d rows still owe an alert, want none", len(owed))
		}
	})
}

// C44 on a private broker: down, and killed in the middle; no attempt is spent and
// everything is delivered after its return without a restart.
func TestC44_OutageOfARealBroker(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	r := newRig(t, "mysql", dbtest.MySQL(t), node.URL())
	ids := r.put(200, "orders", "ex", "k")
	r.must(node.Stop())
	var seen counters
	cfg := r.config()
	cfg.Policy.MaxAttempts, cfg.Policy.MinDeadAge, cfg.Observers = 5, model.None, seen.observers()
	c := start(t, cfg)
	eventually(t, "twenty runs were skipped", func() bool {
		return seen.get(func() int { return seen.skipped[compensator.SkipNotReady] }) >= 20
	})
	if n := seen.get(func() int { return seen.starts }); n != 0 {
		t.Errorf("%d runs began with the broker down, want 0", n)
	}
	r.must(node.Start(t.Context()))
	r.untilRows(0, 0)

	// And a connection that is cut while a backlog is drained.
	ids = append(ids, r.put(5000, "orders", "ex", "k")...)
	r.must(node.CloseAllConnections())
	eventually(t, "the backlog is drained after the cut", func() bool { return r.stats().Ready == 0 })
	c.drained(t)
	if dead := r.stats().Dead; dead != 0 {
		t.Errorf("%d rows DEAD after outages, want 0", dead)
	}
	broker := amqptest.Connect(t, node.URL())
	deliveries, err := broker.Drain("q1")
	r.must(err)
	have := map[string]bool{}
	for _, d := range deliveries {
		have[d.MessageId] = true
	}
	for _, id := range ids {
		if !have[id] {
			t.Fatalf("id %s was not delivered (%d of %d were)", id, len(have), len(ids))
		}
	}
}

// C45: while first sends wait for slow confirms, a compensator beside them sends nothing
// twice; nor does it send twice what it sent itself.
func TestC45_SlowConfirmsAreNotSentAgain(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		cfg, err := confirms.ParseURL(r.url)
		r.must(err)
		proxy, err := faultproxy.New(cfg.Addrs[0])
		r.must(err)
		t.Cleanup(func() { r.must(proxy.Close()) })
		slow, ours := r.sender(proxy.Addr(), nil), r.sender(proxy.Addr(), nil)
		r.must(slow.WaitReady(t.Context()))
		r.must(ours.WaitReady(t.Context()))
		proxy.Delay(faultproxy.ToClient, 3*time.Second)
		p, err := publisher.Open(publisher.Config{Service: "orders", Store: r.store, Sender: slow})
		r.must(err)
		ccfg := r.config()
		ccfg.Sender = ours
		ids := r.put(100, "orders", "ex", "k")
		c := start(t, ccfg)
		for i := range 100 {
			m := model.Message{Exchange: "ex", RoutingKey: "k", ID: model.StableID("c45", r.url, string(rune('a'+i)))}
			if _, err := p.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, m.ID)
		}
		r.untilRows(0, 0)
		c.drained(t)
		r.must(p.Close(t.Context()))
		if proxy.Stats().Delayed == 0 {
			t.Error("the proxy delayed nothing")
		}
		r.deliveredOnce("q1", ids)
	})
}

// C46 on real databases: three replicas, with and without a shared lock, deliver each row
// once, and a failing row is tried once per its own delay.
func TestC46_RealReplicasSendEachRowOnce(t *testing.T) {
	for _, locked := range []string{"claims alone", "redis lock", "redis lock with 3 slots"} {
		t.Run(locked, func(t *testing.T) {
			onDatabases(t, func(t *testing.T, r *rig) {
				const delay = 400 * time.Millisecond
				ids := r.put(1000, "orders", "ex", "k")
				failing := r.put(1, "orders", "ex", "unbound")[0]
				prefix, client := freshPrefix(), redisClient(t, sharedRedis)
				var seen counters
				var replicas []*running
				for range 3 {
					cfg := r.config()
					cfg.BatchRows, cfg.Observers = 50, seen.observers()
					cfg.Policy.BaseDelay, cfg.Policy.MaxAttempts = delay, 1000
					switch locked {
					case "redis lock":
						cfg.Locker = redisLocker(t, redislocker.Config{Client: client, Prefix: prefix})
					case "redis lock with 3 slots":
						cfg.Locker = redisLocker(t, redislocker.Config{Client: client, Prefix: prefix, Slots: 3})
					}
					replicas = append(replicas, start(t, cfg))
				}
				eventually(t, "the failing row has six attempts and the others are gone", func() bool {
					row, _ := r.show(failing)
					return row.Attempts >= 6 && r.stats().Ready == 1
				})
				for _, c := range replicas {
					c.drained(t)
				}
				r.deliveredOnce("q1", ids)
				row, events := r.show(failing)
				for i := 1; i < len(events); i++ {
					// Event and due time are set by two statements, some ms apart.
					if gap := events[i].At - events[i-1].At; gap < delay.Milliseconds()*3/4 {
						t.Errorf("two tries of the failing row within %d ms, its delay is %v", gap, delay)
					}
				}
				if row.Attempts != len(events) || seen.conflicts != 0 {
					t.Errorf("%d attempts, %d events, %d lease conflicts; want as many events and no conflict",
						row.Attempts, len(events), seen.conflicts)
				}
			})
		})
	}
}

// C48 on real servers: poison of each kind in front of good rows, as many as a batch.
func TestC48_RealPoisonRows(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		r.must(r.InternalExchange("internal", amqp.ExchangeDirect))
		corrupt := r.put(10, "orders", "ex", "k")
		newer := r.put(10, "orders", "ex", "k")
		cr := r.put(10, "orders", "ex", "k")
		missing := r.put(10, "orders", "noex", "k")
		internal := r.put(10, "orders", "internal", "k")
		good := r.put(100, "orders", "ex", "k")
		r.exec("UPDATE trans_message SET properties = 'garbage' WHERE id IN " + quoted(corrupt))
		r.exec(`UPDATE trans_message SET properties = '{"v":99}' WHERE id IN ` + quoted(newer))
		r.exec("UPDATE trans_message SET exchange = 'a\rb' WHERE id IN " + quoted(cr))
		r.exec("UPDATE trans_message SET next_attempt_at = next_attempt_at - 60000 WHERE id NOT IN " + quoted(good))
		var seen counters
		cfg := r.config()
		cfg.BatchRows, cfg.Observers, cfg.Policy.MaxAttempts = 50, seen.observers(), 1000
		cfg.Policy.BaseDelay = time.Second
		c := start(t, cfg)
		eventually(t, "the good rows are delivered", func() bool {
			left, err := r.store.ReadBack(t.Context(), good)
			r.must(err)
			return len(left) == 0
		})
		eventually(t, "the internal exchange is pinned, and its rows say so", func() bool {
			rows, err := r.store.List(t.Context(), model.Filter{Exchange: "internal", Code: model.CodeAccessRefused})
			r.must(err)
			return len(rows) == len(internal)
		})
		c.drained(t)
		r.delivered("q1", good)
		var charged int
		r.must(r.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM trans_message_event WHERE attempts > 0 "+
			"AND row_id IN "+quoted(good)).Scan(&charged))
		if charged != 0 {
			t.Errorf("good rows were charged with %d attempts, want none", charged)
		}
		for kind, want := range map[string]struct {
			ids    []string
			status model.Status
			code   model.CauseCode
		}{
			"corrupt":  {corrupt, model.Dead, model.CodeCorrupt},
			"newer":    {newer, model.Ready, model.CodeNewerCodec},
			"cr":       {cr, model.Dead, model.CodeInvalid},
			"missing":  {missing, model.Ready, model.CodeNotFound},
			"internal": {internal, model.Ready, model.CodeAccessRefused},
		} {
			for _, id := range want.ids {
				row, _ := r.show(id)
				if row.Status != want.status || row.LastCode != want.code {
					t.Errorf("%s: %s with %s %q, want %s with %s", kind, row.Status, row.LastCode, row.LastError,
						want.status, want.code)
				}
				if kind == "newer" && row.Attempts != 0 {
					t.Errorf("newer: %d attempts, want 0", row.Attempts)
				}
			}
		}
	})
}

// C50: after one replica's stop another runs at once, not after the TTL.
func TestC50_AnotherReplicaTakesOverAtOnce(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		client, prefix := redisClient(t, sharedRedis), freshPrefix()
		replica := func(seen *counters) *running {
			cfg := r.config()
			cfg.Observers = seen.observers()
			cfg.Locker = redisLocker(t, redislocker.Config{Client: client, Prefix: prefix, TTL: time.Minute})
			return start(t, cfg)
		}
		// The patience of the polls is below the TTL: waiting for its end would fail.
		var first, second counters
		r.put(2000, "orders", "ex", "k")
		one := replica(&first)
		eventually(t, "the first runs", func() bool { return first.get(func() int { return first.starts }) > 0 })
		one.drained(t)
		if n, err := client.Exists(t.Context(), prefix+":all/1").Result(); err != nil || n != 0 {
			t.Errorf("%d keys after the stop (%v), want none", n, err)
		}
		two := replica(&second)
		r.untilRows(0, 0)
		two.drained(t)
	})
}

// C24: a stop in the middle of a drain leaves every row either delivered or due and
// unclaimed, and another replica delivers the rest: each once.
func TestC24_StopInTheMiddleOfADrain(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		ids := r.put(5000, "orders", "ex", "k")
		c := start(t, r.config())
		eventually(t, "some are delivered", func() bool { return r.stats().Ready < 5000 })
		c.drained(t)
		s := r.stats()
		if s.Ready != s.Due {
			t.Errorf("%d rows READY, %d of them due; want all due after the stop", s.Ready, s.Due)
		}
		c = start(t, r.config())
		r.untilRows(0, 0)
		c.drained(t)
		r.deliveredOnce("q1", ids)
	})
}

// C24: rows of a replica that was killed are sent when their leases end, not before.
func TestC24_RealLeaseExpiry(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		ids := r.put(50, "orders", "ex", "k")
		claimed, err := r.store.Claim(t.Context(), model.Claim{
			Service: "orders", Instance: "killed",
			Lease: 2 * time.Second, MaxRows: 50, MaxBytes: 1 << 20,
		})
		r.must(err)
		if len(claimed.Rows) != 50 {
			t.Fatalf("%d rows claimed, want 50", len(claimed.Rows))
		}
		end, err := r.store.Now(t.Context())
		r.must(err)
		end += 1900 // the lease began before Now was asked
		c := start(t, r.config())
		eventually(t, "the first row was taken over", func() bool { return r.stats().Ready < 50 })
		now, err := r.store.Now(t.Context())
		r.must(err)
		if now < end {
			t.Errorf("taken over %d ms before the lease ended", end-now)
		}
		r.untilRows(0, 0)
		c.drained(t)
		r.deliveredOnce("q1", ids)
	})
}

// A confirm that never comes is unknown: no attempt, READY, sent again later with the
// same id; and the compensator recovers without a restart.
func TestLostConfirmsAreUnknown(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		cfg, err := confirms.ParseURL(r.url)
		r.must(err)
		proxy, err := faultproxy.New(cfg.Addrs[0])
		r.must(err)
		t.Cleanup(func() { r.must(proxy.Close()) })
		log := &logtest.Buffer{}
		ccfg := r.config()
		ccfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		sender := r.sender(proxy.Addr(), func(c *confirms.Config) { c.ConfirmTimeout = 500 * time.Millisecond })
		r.must(sender.WaitReady(t.Context()))
		ccfg.Sender = sender
		proxy.SwallowAcks(true)
		id := r.put(1, "orders", "ex", "k")[0]
		c := start(t, ccfg)
		eventually(t, "the confirm timed out", func() bool {
			row, _, err := r.store.Show(t.Context(), id)
			return err == nil && row.LastCode == model.CodeTimeout
		})
		row, _ := r.show(id)
		if row.Attempts != 0 || row.Failures < 1 || row.Status != model.Ready {
			t.Errorf("row %+v, want READY without attempts", row)
		}
		proxy.SwallowAcks(false)
		proxy.Cut(true)
		r.untilRows(0, 0)
		c.drained(t)
		deliveries, err := r.Drain("q1")
		r.must(err)
		for _, d := range deliveries {
			if d.MessageId != id {
				t.Errorf("a delivery with id %s, want %s alone", d.MessageId, id)
			}
		}
		if len(deliveries) < 2 || len(log.Lines("code=timeout")) == 0 {
			t.Errorf("%d deliveries, lines %q; want a repeat and a line for the timeout", len(deliveries),
				log.Lines("send failed"))
		}
	})
}
