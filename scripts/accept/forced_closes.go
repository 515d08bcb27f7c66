package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	forcedCloses = 100
	// forcedWithin is the time for all of them.
	forcedWithin = time.Minute
	// forcedHits is how many of them must have found a connection of a role: a process
	// that did not come back is closed once.
	forcedHits = forcedCloses / 2
	// forcedMailbox is how the broker's list of what it closed shows the check's own consumer.
	forcedMailbox = "-"
)

// forcedClosesCheck closes every connection of a broker again and again, as an operator or
// a fail-over does, under traffic.
func forcedClosesCheck() check {
	return check{
		name: "forced-closes",
		about: "all connections closed by the broker 100 times in 60 s under traffic: one connection for each role " +
			"afterwards, goroutines and channels as before, nothing lost",
		run: onServer(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			f := &forced{world: w, exchange: w.name("ex"), queue: w.name("main")}
			kind := []string{amqptest.Classic, amqptest.Quorum}[w.Rand.IntN(2)]
			if err := w.route(f.exchange, "fanout", "", amqptest.QueueSpec{Name: f.queue, Type: kind}); err != nil {
				return nil, err
			}
			return f.run(ctx)
		}),
	}
}

type forced struct {
	*world
	exchange, queue string
	pub             *steady
	comp            replica
	http            string
	box             *mailbox
}

func (f *forced) run(ctx context.Context) (figures, error) {
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	before, err := f.warmUp(ctx)
	if err != nil {
		return nil, err
	}
	f.oneEach(before)
	if err := f.pub.tell(steadyGo); err != nil {
		return nil, err
	}
	figs := figures{"before": before, "closes": forcedCloses}
	if err := f.closeAll(ctx, figs); err != nil {
		return figs, err
	}
	if err := f.pub.hold(); err != nil {
		return figs, err
	}
	if err := f.delivered(ctx, figs); err != nil {
		return figs, err
	}
	after, err := f.backAtBaseline(ctx, f.pub, f.http, before)
	if err != nil {
		return figs, err
	}
	figs["after"] = after
	if err := f.pub.finish(); err != nil {
		return figs, err
	}
	return figs, f.stopAll([]replica{f.comp})
}

func (f *forced) start(ctx context.Context) (err error) {
	if f.http, err = freeAddr(); err != nil {
		return err
	}
	if f.comp, err = f.replica(f.binary, "forced", "--http", f.http, "--interval", "200ms"); err != nil {
		return err
	}
	f.pub, err = f.steadyService(steadyOrder{
		Spec: serviceSpec{DSN: f.dsn, AMQP: f.url}, Exchange: f.exchange, Seed: f.Seed,
		Workers: 4 + f.Rand.IntN(8), MaxBody: 1 << uint(8+f.Rand.IntN(6)), Pause: 40 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	f.box = openMailbox(ctx, f.url, f.queue)
	f.later(f.box.close)
	return nil
}

// warmUp lets both work for a while and returns what they hold at rest.
func (f *forced) warmUp(ctx context.Context) (resources, error) {
	if err := f.pub.tell(steadyGo); err != nil {
		return resources{}, err
	}
	forCompensator := make([]model.Message, 50)
	for i := range forCompensator {
		forCompensator[i] = f.message(f.exchange, "key", i, 2048)
	}
	if _, err := f.shelve(ctx, serviceName, forCompensator); err != nil {
		return resources{}, err
	}
	if err := until(ctx, time.Minute, "traffic flows", func(context.Context) (bool, error) {
		n, _ := f.box.arrived(f.pub.stored())
		return n >= 200, nil
	}); err != nil {
		return resources{}, err
	}
	if err := f.pub.hold(); err != nil {
		return resources{}, err
	}
	if err := until(ctx, time.Minute, "the table is empty", f.db.empty); err != nil {
		return resources{}, err
	}
	return f.holds(ctx, f.pub, f.http)
}

// closeAll lets the node close all connections at seeded moments, and counts whose.
func (f *forced) closeAll(ctx context.Context, figs figures) error {
	pauses := make([]string, forcedCloses)
	mean := int(forcedWithin/time.Millisecond) / forcedCloses * 95 / 100 // the closing itself takes some time
	for i := 0; i < forcedCloses; i += 2 {
		shift := f.Rand.IntN(mean * 3 / 4)
		pauses[i], pauses[i+1] = fmt.Sprint(mean-shift), fmt.Sprint(mean+shift)
	}
	known := len(f.pub.stored())
	begin := time.Now()
	if _, err := f.node.Eval(fmt.Sprintf(closeLoop, strings.Join(pauses, ","))); err != nil {
		return err
	}
	time.Sleep(time.Until(begin.Add(forcedWithin))) // What the node works through by itself.
	var rounds []string
	if err := until(ctx, forcedWithin, "all closes are done", func(context.Context) (bool, error) {
		out, err := f.node.Eval(closedConnections)
		rounds = strings.Split(strings.TrimSuffix(out, "ok"), "\n")
		rounds = slices.DeleteFunc(rounds, func(s string) bool { return s == "" })
		return len(rounds) == forcedCloses, err
	}); err != nil {
		return err
	}
	took := time.Since(begin)
	hits := map[string]int{}
	for _, round := range rounds {
		for name := range strings.SplitSeq(strings.TrimPrefix(round, "closed"), "\t") {
			if name != "" {
				hits[name]++
			}
		}
	}
	for _, role := range []string{publisherLink, compensatorLink, forcedMailbox} {
		f.Breaches.AtLeast("closes that found a connection "+role, int64(hits[role]), forcedHits)
	}
	f.Breaches.AtLeast("messages published meanwhile", int64(len(f.pub.stored())-known), 1000)
	figs["seconds"], figs["connections_closed"] = took.Seconds(), hits
	return nil
}

// closeLoop does on the node what close_all_connections does, after each of the pauses, and
// keeps the names of what it closed.
const closeLoop = `spawn(fun() -> lists:foreach(fun(Ms) ->
	timer:sleep(Ms),
	Pids = rabbit_networking:connections(),
	Names = [case lists:keyfind(<<"connection_name">>, 1,
			proplists:get_value(client_properties, rabbit_networking:connection_info(P, [client_properties]), [])) of
		{_, _, N} -> N; _ -> <<"-">> end || P <- Pids, is_process_alive(P)],
	[catch rabbit_networking:close_connection(P, "closed by the test") || P <- Pids],
	Old = application:get_env(rabbit, transmsg_closed, []),
	application:set_env(rabbit, transmsg_closed, [Names | Old])
	end, [%s]) end), ok.`

// closedConnections prints a line for each round.
const closedConnections = `io:format("~s", [[["closed", [["\t", N] || N <- R], "\n"]
	|| R <- application:get_env(rabbit, transmsg_closed, [])]]).`

// delivered waits until all that was acknowledged is in the consumer's hands.
func (f *forced) delivered(ctx context.Context, figs figures) error {
	ids := f.pub.stored()
	if err := until(ctx, time.Minute, "all have arrived", allArrived(f.box, ids)); err != nil {
		if ctx.Err() != nil {
			return err
		}
		f.Breaches.Add("%v", err)
	}
	n, _ := f.box.arrived(ids)
	f.Breaches.Equal("messages acknowledged and not delivered", len(ids)-n, 0)
	if err := until(ctx, time.Minute, "the table is empty", f.db.empty); err != nil {
		return err
	}
	charged, err := f.db.charged(ctx)
	if err != nil {
		return err
	}
	f.Breaches.Equal("messages charged with an attempt", len(charged), 0)
	figs["acknowledged"], figs["repeats"] = len(ids), f.box.repeated()
	return nil
}
