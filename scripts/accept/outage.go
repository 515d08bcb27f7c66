package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

const (
	outageTotal  = 5000
	outageFlying = 200 // on the wire and unanswered when the broker goes
	outageLength = time.Minute
	outageBack   = 5 * time.Second // all delivered within this of the broker's return
	// outageSlack is what a loaded machine may add to a context's end.
	outageSlack = 500 * time.Millisecond
)

// outageCheck takes the broker away in three ways. Publisher and compensator
// run throughout with their defaults. Where the broker goes down under them, some messages
// are on the wire and their confirms are withheld: those sends end as unknown.
func outageCheck() check {
	return check{
		name:  "outage",
		about: "broker down or blocked for 60 s, or down at the start: no call blocks, no attempt is spent, all arrive",
		run: func(ctx context.Context, e *env) (figures, error) {
			figs := figures{}
			for _, c := range []struct {
				name   string
				broken breaker
				start  bool
			}{
				{"down", (*outage).down, false},
				{"alarm", (*outage).alarm, false},
				{"down_at_start", (*outage).down, true},
			} {
				one, err := outageIn(ctx, e, c.name, c.start, c.broken)
				if err != nil {
					return figs, fmt.Errorf("%s: %w", c.name, err)
				}
				figs[c.name] = one
			}
			return figs, nil
		},
	}
}

type outage struct {
	*world
	name            string
	exchange, queue string
	through         string // the broker's URL by way of proxy
	svc             *service
	daemon          daemon
	proxy           *faultproxy.Proxy // between service and broker
	ids, flying     []string
	slowest         time.Duration
	deferred        int
}

// act is one step of an outage and says when it took effect.
type act = func(context.Context) (time.Time, error)

// breaker returns how the broker goes and how it comes back.
type breaker = func(*outage) (breakIt, mendIt act)

func outageIn(ctx context.Context, e *env, name string, atStart bool, broken breaker) (figures, error) {
	w, err := newWorld(ctx, e, worldOptions{privateBroker: true})
	if err != nil {
		return nil, err
	}
	defer w.close()
	o := &outage{world: w, name: name, exchange: w.name("ex"), queue: w.name("main")}
	kind := []string{amqptest.Classic, amqptest.Quorum}[w.Rand.IntN(2)]
	for _, err := range []error{
		w.broker.Exchange(o.exchange, "fanout", nil),
		w.broker.Queue(amqptest.QueueSpec{Name: o.queue, Type: kind}),
		w.broker.Bind(o.queue, o.exchange, ""),
		w.node.FlushQueues(),
	} {
		if err != nil {
			return nil, err
		}
	}
	breakIt, mendIt := broken(o)
	if o.proxy, o.through, err = proxiedURL(o.url); err != nil {
		return nil, err
	}
	o.later(o.proxy.Close)
	if !atStart {
		if err := o.open(ctx); err != nil {
			return nil, err
		}
		if err := o.svc.ready(ctx); err != nil {
			return nil, err
		}
	}
	if name == "down" {
		if err := o.fly(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := breakIt(ctx); err != nil {
		return nil, err
	}
	o.proxy.SwallowAcks(false)
	if atStart {
		if err := o.open(ctx); err != nil {
			return nil, err
		}
	}
	return o.run(ctx, mendIt)
}

// open starts the service and the daemon.
func (o *outage) open(ctx context.Context) (err error) {
	if o.svc, err = o.world.service(ctx, serviceSpec{AMQP: o.through}); err != nil {
		return err
	}
	o.daemon, err = o.compensate()
	return err
}

// fly publishes messages whose confirms are withheld until the broker is gone.
func (o *outage) fly(ctx context.Context) error {
	o.proxy.SwallowAcks(true)
	for i := range outageFlying {
		receipt, err := o.svc.pub.Publish(ctx, o.message(o.exchange, letters(o.Rand, 5), outageTotal+i, 2048))
		if err != nil {
			return err
		}
		o.flying = append(o.flying, receipt.ID())
	}
	return nil
}

// down ends the node, gracefully or not.
func (o *outage) down() (breakIt, mendIt act) {
	end := o.node.Stop
	if o.Rand.IntN(2) == 0 {
		end = o.node.Kill
	}
	return func(context.Context) (time.Time, error) { return time.Now(), end() },
		func(ctx context.Context) (time.Time, error) {
			err := o.node.Start(ctx)
			return time.Now(), err
		}
}

// alarm raises the memory alarm. A connection of our own tells when the broker
// lets publishers go on.
func (o *outage) alarm() (breakIt, mendIt act) {
	blocked := make(chan amqp.Blocking, 4)
	return func(ctx context.Context) (time.Time, error) {
			if err := o.node.MemoryAlarm(true); err != nil {
				return time.Time{}, err
			}
			conn, err := amqp.Dial(o.url)
			if err != nil {
				return time.Time{}, err
			}
			o.later(conn.Close)
			conn.NotifyBlocked(blocked)
			ch, err := conn.Channel()
			if err != nil {
				return time.Time{}, err
			}
			if err := ch.PublishWithContext(ctx, "", "nowhere", false, false, amqp.Publishing{}); err != nil {
				return time.Time{}, err
			}
			if b := <-blocked; !b.Active {
				return time.Time{}, errors.New("the alarm did not block")
			}
			return time.Now(), o.untilBlocked(ctx)
		}, func(ctx context.Context) (time.Time, error) {
			mended := make(chan error, 1)
			go func() { mended <- o.node.MemoryAlarm(false) }()
			select {
			case <-blocked:
			case <-ctx.Done():
				return time.Time{}, ctx.Err()
			}
			back := time.Now()
			return back, <-mended
		}
}

// untilBlocked publishes once for each of the two connections, since a broker tells a connection
// that it is blocked only when that next publishes. A message with a body then waits behind the
// alarm; one without a body is complete with its header, is delivered, and blocks the connection.
func (o *outage) untilBlocked(ctx context.Context) error {
	empty := model.Message{Exchange: o.exchange}
	if _, err := o.svc.pub.Publish(ctx, empty); err != nil {
		return err
	}
	if err := until(ctx, 10*time.Second, "the service's connection is blocked",
		func(context.Context) (bool, error) { return !o.svc.sender.Ready(), nil }); err != nil {
		return err
	}
	if _, err := o.svc.pub.Publish(ctx, empty); err != nil {
		return err
	}
	return until(ctx, 30*time.Second, "the compensator has sent the last message before its connection is blocked",
		o.db.empty)
}

func (o *outage) run(ctx context.Context, mendIt act) (figures, error) {
	box := openMailbox(ctx, o.url, o.queue)
	o.later(box.close)
	pid := o.daemon.Pid()
	over := time.NewTimer(outageLength)
	defer over.Stop()
	o.publish(ctx)
	<-over.C
	if err := o.checkDown(ctx); err != nil {
		return nil, err
	}
	back, err := mendIt(ctx)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, "all have arrived", func(context.Context) (bool, error) {
		n, _ := box.arrived(o.ids)
		flown, _ := box.arrived(o.flying)
		return n == len(o.ids) && flown == len(o.flying), nil
	}); err != nil {
		o.Breaches.Add("%s: %v", o.name, err)
	}
	n, last := box.arrived(o.ids)
	o.Breaches.Equal(o.name+": delivered", n, outageTotal)
	flown, _ := box.arrived(o.flying)
	o.Breaches.Equal(o.name+": delivered of those on the wire", flown, len(o.flying))
	took := last.Sub(back)
	o.Breaches.Check(took <= outageBack, "%s: the last arrived %v after the broker's return, want at most %v",
		o.name, took, outageBack)
	if err := until(ctx, time.Minute, "the table is empty", o.db.empty); err != nil {
		return nil, err
	}
	charged, err := o.db.charged(ctx)
	if err != nil {
		return nil, err
	}
	o.Breaches.Equal(o.name+": messages charged with an attempt", len(charged), 0)
	o.Breaches.Check(o.daemon.Running() && o.daemon.Pid() == pid, "%s: the compensator has ended", o.name)
	return figures{
		"published": outageTotal, "deferred": o.deferred, "slowest_publish_ms": o.slowest.Milliseconds(),
		"unanswered": len(o.flying), "delivered": n, "seconds_after_return": took.Seconds(), "repeats": box.repeated(),
	}, nil
}

// publish publishes all, spread over most of the outage at seeded moments.
func (o *outage) publish(ctx context.Context) {
	limit := time.Duration(1000+o.Rand.IntN(2000)) * time.Millisecond
	pause := outageLength * 8 / 10 / outageTotal
	messages := make([]model.Message, outageTotal)
	pauses := make([]time.Duration, outageTotal)
	for i := range messages {
		messages[i] = o.message(o.exchange, letters(o.Rand, 5), i, 2048)
		pauses[i] = time.Duration(o.Rand.Int64N(2 * int64(pause)))
	}
	ids := make([]string, outageTotal)
	var deferred, slowest atomic.Int64
	var callers sync.WaitGroup
	places := make(chan struct{}, 256)
	begin, due := time.Now(), time.Duration(0)
	for i := range messages {
		due += pauses[i]
		time.Sleep(time.Until(begin.Add(due))) // The seeded moment of this publish.
		places <- struct{}{}
		callers.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			begin := time.Now()
			receipt, err := o.svc.pub.Publish(ctx, messages[i])
			took := time.Since(begin)
			for old := slowest.Load(); int64(took) > old && !slowest.CompareAndSwap(old, int64(took)); {
				old = slowest.Load()
			}
			o.Breaches.Check(took <= limit+outageSlack, "%s: Publish took %v with a context of %v", o.name, took, limit)
			if !o.Breaches.Check(err == nil, "%s: publish: %v", o.name, err) {
				return
			}
			ids[i] = receipt.ID()
			if outcome, err := receipt.Wait(ctx); err == nil && outcome.Kind == model.Deferred {
				deferred.Add(1)
			}
		})
	}
	callers.Wait()
	o.ids, o.deferred, o.slowest = ids, int(deferred.Load()), time.Duration(slowest.Load())
}

// checkDown looks at the table at the end of the outage.
func (o *outage) checkDown(ctx context.Context) error {
	o.Breaches.Equal(o.name+": receipts deferred", o.deferred, outageTotal)
	rows, err := o.db.rows(ctx)
	if err != nil {
		return err
	}
	stored, attempts := 0, 0
	for _, id := range o.ids {
		r, ok := rows[id]
		if ok && r.Status == "READY" {
			stored++
		}
		attempts += r.Attempts
	}
	unanswered := 0
	for _, id := range o.flying {
		r := rows[id]
		unanswered += btoi(r.Status == "READY" && r.Failures > 0)
		attempts += r.Attempts
	}
	o.Breaches.Equal(o.name+": READY rows at the end of the outage", stored, outageTotal)
	o.Breaches.Equal(o.name+": READY rows whose send ended as unknown", unanswered, len(o.flying))
	o.Breaches.Equal(o.name+": attempts spent", attempts, 0)
	return nil
}
