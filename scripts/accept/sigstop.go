package main

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

const (
	// sigstopKey ends the one key of the check's own Redis, which begins with the database's name.
	sigstopKey   = "/all/1"
	sigstopStops = 2
	// sigstopSlack is what a loaded machine may add to a takeover.
	sigstopSlack = 500 * time.Millisecond
)

// sigstopCheck stops the process that holds the lock, in the middle of its work,
// for three TTLs. Redis's own account (MONITOR) tells who has the key.
func sigstopCheck() check {
	return check{
		name: "sigstop",
		about: "the lock's holder stopped for three TTLs: another takes over within one, no row is sent twice, " +
			"nobody releases another's key; a process stopped past its leases settles no row of another's",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			var err error
			s := &sigstop{world: w, exchange: w.name("ex"), queue: w.name("main")}
			s.ttl = time.Duration(1000+w.Rand.IntN(2000)) * time.Millisecond
			s.interval = time.Duration(50+w.Rand.IntN(100)) * time.Millisecond
			s.rate = 300 + w.Rand.IntN(200)
			if s.server, err = dbtest.NewRedis(ctx, ""); err != nil {
				return nil, err
			}
			w.later(s.server.Close)
			if s.monitor, err = monitorLock(s.server.Addr()); err != nil {
				return nil, err
			}
			w.later(s.monitor.close)
			figs, err := s.run(ctx)
			if err != nil {
				return figs, err
			}
			figs["fence"], err = runFence(ctx, w)
			return figs, err
		}),
	}
}

type sigstop struct {
	*world
	exchange, queue string
	server          *dbtest.RedisServer
	monitor         *lockMonitor
	ttl, interval   time.Duration
	rate            int
	all             []replica
}

func (s *sigstop) run(ctx context.Context) (figures, error) {
	kind := []string{amqptest.Classic, amqptest.Quorum}[s.Rand.IntN(2)]
	for _, err := range []error{
		s.broker.Exchange(s.exchange, "fanout", nil),
		s.broker.Queue(amqptest.QueueSpec{Name: s.queue, Type: kind}),
		s.broker.Bind(s.queue, s.exchange, ""),
	} {
		if err != nil {
			return nil, err
		}
	}
	// Work for all stops and some seconds more.
	messages := make([]model.Message, s.rate*int((sigstopStops*4*s.ttl)/time.Second+4))
	for i := range messages {
		messages[i] = s.message(s.exchange, "key", i, 2048)
	}
	ids, err := s.shelve(ctx, serviceName, messages)
	if err != nil {
		return nil, err
	}
	if s.all, err = s.replicas("replica", 3, "--redis", "redis://"+s.server.Addr()+"/0",
		"--lock-ttl", s.ttl.String(), "--interval", s.interval.String(),
		"--rate", fmt.Sprint(s.rate), "--batch", fmt.Sprint(10+s.Rand.IntN(200))); err != nil {
		return nil, err
	}
	figs := figures{"ttl_ms": s.ttl.Milliseconds(), "rows": len(ids)}
	var took []int64
	for n := range sigstopStops {
		ms, err := s.stopHolder(ctx)
		if err != nil {
			return figs, fmt.Errorf("stop %d: %w", n+1, err)
		}
		took = append(took, ms)
	}
	figs["takeover_ms"] = took
	if err := until(ctx, 2*time.Minute, "the table is empty", s.db.empty); err != nil {
		return figs, err
	}
	if err := s.stopAll(s.all); err != nil {
		return figs, err
	}
	return figs, s.check(ctx, ids, figs)
}

// worker waits until somebody other than the one given claims, and returns it.
func (s *sigstop) worker(ctx context.Context, other string) (replica, error) {
	var found replica
	err := until(ctx, 10*s.ttl, "another process than "+other+" claims rows", func(ctx context.Context) (bool, error) {
		last, err := s.db.strings(ctx, "SELECT claimed_by FROM trans_message "+
			"WHERE claimed_by <> '' AND claimed_by <> ? ORDER BY updated_at DESC, version LIMIT 1", other)
		for _, r := range s.all {
			if len(last) == 1 && last[0] == r.instance {
				found = r
			}
		}
		return found.instance != "", err
	})
	return found, err
}

// stopHolder stops the process at work and returns how long its key was nobody's.
func (s *sigstop) stopHolder(ctx context.Context) (ms int64, err error) {
	holder, err := s.worker(ctx, "")
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Duration(s.Rand.Int64N(int64(s.ttl)))) // The seeded moment between two renewals.
	if err := holder.Pause(); err != nil {
		return 0, err
	}
	stopped := time.Now()
	token := s.monitor.holder(sigstopKey)
	s.Breaches.Check(token != "", "%s: nobody has the key %s", holder.instance, sigstopKey)
	var next lockTaken
	if err := until(ctx, 3*s.ttl, "another process takes the key", func(context.Context) (ok bool, err error) {
		next, ok = s.monitor.after(sigstopKey, stopped)
		return ok, nil
	}); err != nil {
		s.Breaches.Add("%v", err)
	}
	took := next.at.Sub(stopped)
	s.Breaches.Check(took <= s.ttl+s.interval+sigstopSlack, "taken over after %v, want at most a TTL of %v",
		took, s.ttl)
	s.Breaches.Check(next.token != token, "the stopped process has its key again")
	successor, err := s.worker(ctx, holder.instance)
	if err != nil {
		return 0, err
	}
	s.Log.InfoContext(ctx, "taken over", "stopped", holder.instance, "by", successor.instance, "after", took)
	time.Sleep(time.Until(stopped.Add(3 * s.ttl))) // What the stop is to last.
	atWork := s.monitor.holder(sigstopKey)
	if err := holder.Resume(); err != nil {
		return 0, err
	}
	time.Sleep(s.ttl / 2) // It finds out.
	left, err := s.db.count(ctx, "1 = 1")
	if err != nil {
		return 0, err
	}
	s.Breaches.AtLeast("rows left after the stop, for others to work on", int64(left), 1)
	s.Breaches.Equal("the key's holder once the stopped process goes on", s.monitor.holder(sigstopKey), atWork)
	return took.Milliseconds(), nil
}

func (s *sigstop) check(ctx context.Context, ids []string, figs figures) error {
	got, err := s.harvest(ctx, s.queue)
	if err != nil {
		return err
	}
	n, missing, repeated := times(got), 0, 0
	for _, id := range ids {
		missing += btoi(n[id] == 0)
		repeated += max(0, n[id]-1)
	}
	s.Breaches.Equal("rows not delivered", missing, 0)
	s.Breaches.Equal("rows sent twice", repeated, 0)
	s.Breaches.Equal("deliveries", len(got), len(ids))
	freed, foreign := s.monitor.releases()
	s.Breaches.Equal("releases of a key by others than its holder", foreign, []string{})
	s.Breaches.AtLeast("releases by the holder", int64(freed), 1)
	figs["deliveries"], figs["releases"] = len(got), freed
	return nil
}
