package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

const (
	recoverRows = 50_000
	// recoverScale is how much shorter everything is than with the defaults: the
	// outage and the delays between the tries of a row alike.
	recoverScale  = 20
	recoverOutage = 10 * time.Minute / recoverScale
	recoverBody   = 256
	// recoverFlying rows are on the wire and unanswered when the broker goes.
	recoverFlying   = 100
	recoverAttempts = 5
	// recoverSlowStart is the compensator's default. It is not shortened.
	recoverSlowStart = 30 * time.Second
	// recoverSlack is how long before the first message the climb may have begun.
	recoverSlack = time.Second
	// recoverJitter is how much a loaded machine may shift what goes through the proxy.
	recoverJitter = 100 * time.Millisecond
	// recoverLook is the time between two looks at what went to the broker.
	recoverLook = 50 * time.Millisecond
)

// recoverCheck takes the broker away for long and watches, on the wire, how fast the
// backlog is sent once it is back.
func recoverCheck() check {
	return check{
		name: "recover",
		about: "broker down for 10 simulated minutes, 50,000 rows, 5 attempts: none DEAD, all delivered, " +
			"at a rate that climbs and stays within the limit",
		run: onServer(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			r := &recovery{world: w, exchange: w.name("ex"), queue: w.name("main"), rate: 1200 + w.Rand.IntN(800)}
			if err := w.route(r.exchange, "fanout", "", amqptest.QueueSpec{Name: r.queue}); err != nil {
				return nil, err
			}
			return r.run(ctx)
		}),
	}
}

type recovery struct {
	*world
	exchange, queue string
	rate            int
	proxy           *faultproxy.Proxy
	all             []replica
}

// looked is what had gone through the proxy at a time.
type looked struct {
	at    time.Time
	bytes int64
}

func (r *recovery) run(ctx context.Context) (figures, error) {
	if err := r.start(); err != nil {
		return nil, err
	}
	// A first few go through, so that compensator and broker are known to work.
	first, err := r.publish(ctx, 100)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, "the first rows are gone", r.db.empty); err != nil {
		return nil, err
	}
	flying, err := r.fly(ctx)
	if err != nil {
		return nil, err
	}
	if err := []func() error{r.node.Stop, r.node.Kill}[r.Rand.IntN(2)](); err != nil {
		return nil, err
	}
	down := time.Now()
	r.proxy.SwallowAcks(false)
	ids, err := r.publish(ctx, recoverRows)
	if err != nil {
		return nil, err
	}
	r.Log.InfoContext(ctx, "stored during the outage", "rows", len(ids), "after", time.Since(down))
	time.Sleep(time.Until(down.Add(recoverOutage))) // What the outage is to last.
	if err := r.undisturbed(ctx, "during the outage"); err != nil {
		return nil, err
	}
	unanswered, err := r.db.count(ctx, "failures > 0")
	if err != nil {
		return nil, err
	}
	r.Breaches.Equal("rows whose send ended as unknown", unanswered, len(flying))
	before := r.proxy.BytesThrough(faultproxy.ToServer)
	if err := r.node.Start(ctx); err != nil {
		return nil, err
	}
	back := time.Now()
	looks, err := r.watch(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.undisturbed(ctx, "after the recovery"); err != nil {
		return nil, err
	}
	if err := r.stopAll(r.all); err != nil {
		return nil, err
	}
	figs := figures{
		"rows": recoverRows, "simulated_minutes": 10, "seconds_down": back.Sub(down).Seconds(),
		"delays_and_outage_shortened_by": recoverScale, "limit_per_second": r.rate,
		"seconds_to_deliver": looks[len(looks)-1].at.Sub(back).Seconds(),
	}
	r.checkRate(looks, before, figs)
	return figs, r.checkDelivered(ctx, slices.Concat(first, flying, ids), figs)
}

// fly has rows sent whose confirms are withheld until the broker is gone.
func (r *recovery) fly(ctx context.Context) ([]string, error) {
	before := r.proxy.BytesThrough(faultproxy.ToServer)
	r.proxy.SwallowAcks(true)
	ids, err := r.publish(ctx, recoverFlying)
	if err != nil {
		return nil, err
	}
	return ids, until(ctx, time.Minute, "the rows are on the wire", func(context.Context) (bool, error) {
		return r.proxy.BytesThrough(faultproxy.ToServer)-before >= recoverFlying*recoverBody, nil
	})
}

// start starts the compensator, whose connection to the broker goes through a proxy
// that counts bytes. The delays are the default ones, shortened as the outage is.
func (r *recovery) start() error {
	proxy, through, err := proxiedURL(r.url)
	if err != nil {
		return err
	}
	r.proxy = proxy
	r.later(proxy.Close)
	direct := r.url
	r.url = through
	defer func() { r.url = direct }()
	r.all, err = r.replicas("recover", 1, "--rate", fmt.Sprint(r.rate), "--max-attempts", fmt.Sprint(recoverAttempts),
		"--min-dead-age", "0",
		"--interval", "50ms", "--base-delay", (time.Second / recoverScale).String(),
		"--max-delay", (5 * time.Minute / recoverScale).String())
	return err
}

// publish stores messages of one size that only the compensator sends.
func (r *recovery) publish(ctx context.Context, n int) ([]string, error) {
	messages := make([]model.Message, n)
	for i := range messages {
		messages[i] = model.Message{
			Exchange: r.exchange, RoutingKey: "key", Body: bytesOf(r.Rand, recoverBody),
			Properties: model.Properties{CorrelationID: fmt.Sprintf("%06d", i)},
		}
	}
	return r.shelve(ctx, serviceName, messages)
}

// undisturbed checks that no row was given up or charged, now or before.
func (r *recovery) undisturbed(ctx context.Context, when string) error {
	dead, err := r.db.count(ctx, "status = 'DEAD'")
	if err != nil {
		return err
	}
	charged, err := r.db.charged(ctx)
	if err != nil {
		return err
	}
	spent, err := r.db.count(ctx, "attempts > 0")
	if err != nil {
		return err
	}
	r.Breaches.Equal("rows DEAD "+when, dead, 0)
	r.Breaches.Equal("rows charged with an attempt "+when, len(charged)+spent, 0)
	r.Breaches.Check(r.all[0].Running(), "the compensator has ended: %s", tailOf(r.all[0].log))
	return nil
}

// watch looks at the bytes until the table is empty.
func (r *recovery) watch(ctx context.Context) ([]looked, error) {
	var looks []looked
	tick := time.NewTicker(recoverLook)
	defer tick.Stop()
	end := time.Now().Add(3 * time.Minute)
	for n := 0; ; n++ {
		looks = append(looks, looked{time.Now(), r.proxy.BytesThrough(faultproxy.ToServer)})
		if n%10 == 0 {
			empty, err := r.db.empty(ctx)
			if err != nil || empty {
				return looks, err
			}
			if time.Now().After(end) {
				r.Breaches.Add("the table is not empty 3 minutes after the broker's return")
				return looks, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// checkRate turns bytes into messages, since all are of one size. The rate may climb
// from a tenth of the limit to the limit within the slow start's time; in any second at
// most 1.1 times the limit is sent.
func (r *recovery) checkRate(looks []looked, before int64, figs figures) {
	end := looks[len(looks)-1]
	sent := func(l looked) float64 { // messages until then
		return float64(l.bytes-before) * recoverRows / float64(end.bytes-before)
	}
	first := 0
	for first < len(looks)-1 && sent(looks[first]) < 1 {
		first++
	}
	looks = looks[first:]
	fastest, ahead := 0.0, 0.0
	var quarters [4]int
	for i, j := 0, 0; i < len(looks); i++ {
		for j < len(looks) && looks[j].at.Sub(looks[i].at) < time.Second {
			j++
		}
		if j < len(looks) {
			fastest = max(fastest, (sent(looks[j])-sent(looks[i]))/looks[j].at.Sub(looks[i].at).Seconds())
		}
		since := looks[i].at.Sub(looks[0].at)
		ahead = max(ahead, sent(looks[i])/r.allowed(since+recoverSlack))
		if i > 0 {
			q := min(3, int(4*since/end.at.Sub(looks[0].at)))
			quarters[q] += int(sent(looks[i]) - sent(looks[i-1]))
		}
	}
	most := (1.1 + recoverJitter.Seconds()) * float64(r.rate)
	r.Breaches.Check(fastest <= most, "fastest second: %.0f messages, want at most %.0f with a limit of %d",
		fastest, most, r.rate)
	r.Breaches.Check(ahead <= 1.1, "sent by some moment: %.2f times what a climb to the limit allows", ahead)
	r.Breaches.Check(quarters[0] < quarters[1], "messages sent in the quarters of the time: %v, want a climb", quarters)
	figs["fastest_per_second"], figs["sent_per_quarter"] = int(fastest), quarters
	figs["most_of_what_a_climb_allows"] = ahead
}

// allowed is how many messages a climb from a tenth of the limit has let pass after so long.
func (r *recovery) allowed(since time.Duration) float64 {
	climb := min(since, recoverSlowStart).Seconds()
	n := 0.1*climb + 0.9*climb*climb/2/recoverSlowStart.Seconds() + max(0, since-recoverSlowStart).Seconds()
	return n * float64(r.rate)
}

func (r *recovery) checkDelivered(ctx context.Context, ids []string, figs figures) error {
	got, err := r.harvest(ctx, r.queue)
	if err != nil {
		return err
	}
	n, missing := times(got), 0
	for _, id := range ids {
		missing += btoi(n[id] == 0)
		delete(n, id)
	}
	r.Breaches.Equal("messages not delivered", missing, 0)
	r.Breaches.Equal("deliveries that nobody published", len(n), 0)
	figs["deliveries"], figs["repeats"] = len(got), len(got)-len(ids)
	return nil
}
