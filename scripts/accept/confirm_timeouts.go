package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

// timeoutsWanted is how many confirms of the publisher must run into their timeout.
const timeoutsWanted = 1000

// confirmTimeoutsCheck takes every ack out of the broker's answers for a while.
func confirmTimeoutsCheck() check {
	return check{
		name: "confirm-timeouts",
		about: "1,000 confirms that never come: every row stays and is delivered later, goroutines, channels and " +
			"connections are as before",
		run: onServer(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			c := &confirmTimeouts{world: w, exchange: w.name("ex"), queue: w.name("main")}
			kind := []string{amqptest.Classic, amqptest.Quorum}[w.Rand.IntN(2)]
			if err := w.route(c.exchange, "fanout", "", amqptest.QueueSpec{Name: c.queue, Type: kind}); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

type confirmTimeouts struct {
	*world
	exchange, queue string
	proxy           *faultproxy.Proxy
	pub             *steady
	comp            replica
	http            string
	deferred        int // of the bursts: never sent by the publisher
}

func (c *confirmTimeouts) run(ctx context.Context) (figures, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	before, err := c.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	c.oneEach(before)
	figs := figures{"before": before}
	swallowed := c.pub.stored()
	if err := c.timeOut(ctx, figs); err != nil {
		return figs, err
	}
	ids := c.pub.stored()[len(swallowed):]
	if err := c.checkKept(ctx, ids, figs); err != nil {
		return figs, err
	}
	c.proxy.SwallowAcks(false)
	if err := until(ctx, 2*time.Minute, "the table is empty", c.db.empty); err != nil {
		return figs, err
	}
	after, err := c.backAtBaseline(ctx, c.pub, c.http, before)
	if err != nil {
		return figs, err
	}
	figs["after"] = after
	if err := c.pub.finish(); err != nil {
		return figs, err
	}
	if err := c.stopAll([]replica{c.comp}); err != nil {
		return figs, err
	}
	return figs, c.checkDelivered(ctx, ids, figs)
}

// start starts a publisher and a compensator whose way to the broker is the proxy.
func (c *confirmTimeouts) start() error {
	proxy, through, err := proxiedURL(c.url)
	if err != nil {
		return err
	}
	c.proxy = proxy
	c.later(proxy.Close)
	direct := c.url
	c.url = through
	defer func() { c.url = direct }()
	if c.http, err = freeAddr(); err != nil {
		return err
	}
	timeout := time.Duration(150+c.Rand.IntN(150)) * time.Millisecond
	c.comp, err = c.replica(c.binary, "timeouts", "--http", c.http, "--interval", "100ms", "--base-delay", "200ms",
		"--max-delay", "2s", "--lease", "10s", "--confirm-timeout", timeout.String())
	if err != nil {
		return err
	}
	c.pub, err = c.steadyService(steadyOrder{
		Spec: serviceSpec{
			DSN: c.dsn, AMQP: c.url, ConfirmTimeout: timeout, SendBudget: time.Second, Window: 50 + c.Rand.IntN(400),
		},
		Exchange: c.exchange, Seed: c.Seed, Workers: 8, MaxBody: 4096, Pause: 20 * time.Millisecond,
	})
	return err
}

// warmUp lets both send a little and returns what they hold at rest.
func (c *confirmTimeouts) warmUp(ctx context.Context) (resources, error) {
	if _, err := c.pub.burst(50); err != nil {
		return resources{}, err
	}
	forCompensator := make([]model.Message, 50)
	for i := range forCompensator {
		forCompensator[i] = c.message(c.exchange, "key", i, 2048)
	}
	if _, err := c.shelve(ctx, serviceName, forCompensator); err != nil {
		return resources{}, err
	}
	if err := until(ctx, time.Minute, "the table is empty", c.db.empty); err != nil {
		return resources{}, err
	}
	return c.holds(ctx, c.pub, c.http)
}

// timeOut publishes seeded bursts, each as soon as the publisher has a channel again, until
// enough confirms have timed out.
func (c *confirmTimeouts) timeOut(ctx context.Context, figs figures) error {
	c.proxy.SwallowAcks(true)
	outcomes, bursts := map[string]int{}, 0
	const timedOut = "unknown timeout"
	for ; outcomes[timedOut] < timeoutsWanted; bursts++ {
		if ctx.Err() != nil || bursts > timeoutsWanted {
			return fmt.Errorf("only %d timeouts in %d bursts: %v", outcomes[timedOut], bursts, outcomes)
		}
		some, err := c.pub.burst(1 + c.Rand.IntN(60))
		if err != nil {
			return err
		}
		for outcome, n := range some {
			outcomes[outcome] += n
		}
	}
	c.Breaches.Equal("confirms that came", outcomes["acked "], 0)
	c.Breaches.AtLeast("acks that the proxy took", int64(c.proxy.Stats().SwallowedAcks), int64(bursts)/2)
	for outcome, n := range outcomes {
		if strings.HasPrefix(outcome, model.Deferred.String()) {
			c.deferred += n
		}
	}
	figs["bursts"], figs["outcomes"] = bursts, outcomes
	return nil
}

// checkKept looks at the table while nothing was confirmed yet. The compensator too must
// have been without confirms.
func (c *confirmTimeouts) checkKept(ctx context.Context, ids []string, figs figures) error {
	if err := until(ctx, time.Minute, "the compensator's confirms have timed out",
		func(ctx context.Context) (bool, error) {
			n, err := seriesSum(ctx, c.http, "transmsg_outcomes_total", `code="timeout"`)
			figs["compensator_timeouts"] = n
			return n >= timeoutsWanted/10, err
		}); err != nil {
		return err
	}
	rows, err := c.db.rows(ctx)
	if err != nil {
		return err
	}
	missing, wrong := 0, 0
	for _, id := range ids {
		r, ok := rows[id]
		missing += btoi(!ok)
		wrong += btoi(ok && (r.Status != "READY" || r.Attempts != 0))
	}
	c.Breaches.Equal("rows gone without a confirm", missing, 0)
	c.Breaches.Equal("rows charged or given up for a missing confirm", wrong, 0)
	return nil
}

// checkDelivered wants each message twice at least that the publisher has sent: the broker took
// it when it kept its ack to itself, and again when the row was at last confirmed.
func (c *confirmTimeouts) checkDelivered(ctx context.Context, ids []string, figs figures) error {
	got, err := c.harvest(ctx, c.queue)
	if err != nil {
		return err
	}
	n, missing, once := times(got), 0, 0
	for _, id := range ids {
		missing += btoi(n[id] == 0)
		once += btoi(n[id] == 1)
	}
	c.Breaches.Equal("messages not delivered", missing, 0)
	c.Breaches.Check(once <= c.deferred, "%d messages were delivered once, of which at most %d were not sent "+
		"before: the row of the others went without another send", once, c.deferred)
	figs["published"], figs["deliveries"] = len(ids), len(got)
	return nil
}
