package main

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

const (
	replicaCount = 3
	replicaRows  = 10_000
	failingRows  = 20
	failingDelay = time.Second
	failingTries = 4 // waited for
	// failingSlack is how much later than the due time, which one statement sets, the
	// next statement of that transaction may say that it is.
	failingSlack = 500 * time.Millisecond
)

// replicasCheck drains one table by three processes, four times. Beside the due
// rows are some that a full queue refuses; that queue's dead letters are a count
// of the tries that the product has no part in.
func replicasCheck() check {
	return check{
		name: "replicas",
		about: "three compensators on 10,000 due rows, with Redis, losing it, without it, with four slots: " +
			"each delivered once, a failing row tried once per its delay",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			figs := figures{}
			for _, phase := range []replicaPhase{
				{name: "redis", redis: true},
				{name: "redis-stops", redis: true, stops: true},
				{name: "no-redis", workers: replicaCount},
				{name: "four-slots", redis: true, slots: 4, workers: replicaCount},
			} {
				one, err := runReplicas(ctx, w, phase)
				if err != nil {
					return figs, fmt.Errorf("%s: %w", phase.name, err)
				}
				figs[phase.name] = one
			}
			return figs, nil
		}),
	}
}

// replicaPhase is how the replicas are kept apart.
type replicaPhase struct {
	name    string
	redis   bool
	stops   bool // Redis does, half-way
	slots   int
	workers int // how many of the processes take part at least
}

// replicaRun is one phase.
type replicaRun struct {
	*world
	replicaPhase
	server                       *dbtest.RedisServer
	exchange, queue, full, tries string
	ids, failing                 []string
	stoppedAt                    int // rows left when Redis stopped
}

func runReplicas(ctx context.Context, w *world, phase replicaPhase) (figures, error) {
	r := &replicaRun{
		world: w, replicaPhase: phase, exchange: w.name("ex"),
		queue: w.name("main"), full: w.name("full"), tries: w.name("tries"),
	}
	if err := r.topology(ctx); err != nil {
		return nil, err
	}
	if err := r.fill(ctx); err != nil {
		return nil, err
	}
	args, err := r.flags(ctx)
	if err != nil {
		return nil, err
	}
	stopLooking := w.instances(ctx)
	all, err := w.replicas(r.name, replicaCount, args...)
	if err != nil {
		return nil, err
	}
	err = r.drain(ctx)
	instances := stopLooking()
	if err != nil {
		return nil, err
	}
	if err := w.stopAll(all); err != nil {
		return nil, err
	}
	r.Breaches.AtLeast(r.name+": processes that claimed", int64(len(instances)), int64(max(1, phase.workers)))
	figs := figures{"rows": replicaRows, "processes_that_claimed": len(instances)}
	if phase.stops {
		figs["rows_left_when_redis_stopped"] = r.stoppedAt
	}
	if err := r.checkDelivered(ctx, figs); err != nil {
		return figs, err
	}
	return figs, r.checkTries(ctx, figs)
}

// topology makes the exchange with two queues, one of which is full and hands
// every message that it refuses to a third.
func (r *replicaRun) topology(ctx context.Context) error {
	kind := []string{amqptest.Classic, amqptest.Quorum}[r.Rand.IntN(2)]
	for _, err := range []error{
		r.broker.Exchange(r.exchange, "direct", nil),
		r.broker.Queue(amqptest.QueueSpec{Name: r.queue, Type: kind}),
		r.broker.Bind(r.queue, r.exchange, "good"),
		r.broker.Queue(amqptest.QueueSpec{Name: r.tries}),
		r.broker.Queue(amqptest.QueueSpec{Name: r.full, Args: amqp.Table{
			"x-max-length": int32(1), "x-overflow": "reject-publish-dlx",
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": r.tries,
		}}),
		r.broker.Bind(r.full, r.exchange, "full"),
		r.broker.Publish(ctx, r.exchange, "full", amqp.Publishing{Body: []byte("fills the queue")}),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// fill stores all rows, the failing ones at seeded places among the others.
func (r *replicaRun) fill(ctx context.Context) error {
	keys := make([]string, replicaRows+failingRows)
	for i := range keys {
		keys[i] = []string{"good", "full"}[btoi(i < failingRows)]
	}
	r.Rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	messages := make([]model.Message, len(keys))
	for i, key := range keys {
		messages[i] = r.message(r.exchange, key, i, 1024)
	}
	ids, err := r.shelve(ctx, serviceName, messages)
	for i, id := range ids {
		if keys[i] == "good" {
			r.ids = append(r.ids, id)
		} else {
			r.failing = append(r.failing, id)
		}
	}
	return err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// flags are those of all replicas. The rate keeps one process from being done
// before the others have started.
func (r *replicaRun) flags(ctx context.Context) ([]string, error) {
	args := []string{
		"--interval", fmt.Sprintf("%dms", 50+r.Rand.IntN(200)), "--batch", fmt.Sprint(20 + r.Rand.IntN(400)),
		"--rate", fmt.Sprint(1000 + r.Rand.IntN(1000)), "--max-attempts", "1000",
		"--base-delay", failingDelay.String(), "--multiplier", "1", "--jitter", "0",
	}
	if !r.redis {
		return args, nil
	}
	var err error
	if r.server, err = dbtest.NewRedis(ctx, ""); err != nil {
		return nil, err
	}
	r.later(r.server.Close)
	args = append(args, "--redis", "redis://"+r.server.Addr()+"/0", "--lock-ttl", "1500ms")
	if r.slots > 0 {
		args = append(args, "--lock-slots", fmt.Sprint(r.slots))
	}
	return args, nil
}

// drain waits until the good rows are gone and the failing ones were tried a
// number of times.
func (r *replicaRun) drain(ctx context.Context) error {
	if r.stops {
		at := replicaRows * (40 + r.Rand.IntN(20)) / 100
		if err := until(ctx, time.Minute, "half of the rows are gone", func(ctx context.Context) (bool, error) {
			n, err := r.db.count(ctx, "routing_key = 'good'")
			r.stoppedAt = n
			return n <= at, err
		}); err != nil {
			return err
		}
		if err := r.server.Stop(); err != nil {
			return err
		}
		left, err := r.db.count(ctx, "routing_key = 'good'")
		if err != nil {
			return err
		}
		r.Breaches.AtLeast(r.name+": rows left after Redis stopped", int64(left), replicaRows/10)
	}
	return until(ctx, 2*time.Minute, "the good rows are gone and the failing ones were tried",
		func(ctx context.Context) (bool, error) {
			n, err := r.db.count(ctx, fmt.Sprintf("routing_key = 'good' OR attempts < %d", failingTries))
			return n == 0, err
		})
}

// checkDelivered compares the queue with what was stored, id by id.
func (r *replicaRun) checkDelivered(ctx context.Context, figs figures) error {
	got, err := r.harvest(ctx, r.queue)
	if err != nil {
		return err
	}
	n, missing, repeated := times(got), 0, 0
	for _, id := range r.ids {
		missing += btoi(n[id] == 0)
		repeated += max(0, n[id]-1)
		delete(n, id)
	}
	r.Breaches.Equal(r.name+": ids not delivered", missing, 0)
	// Losing the lock is no cause of a repeat either: the claims keep replicas apart.
	r.Breaches.Equal(r.name+": deliveries beyond the first", repeated, 0)
	r.Breaches.Equal(r.name+": deliveries that nobody published", len(n), 0)
	figs["deliveries"] = len(got)
	return nil
}

// checkTries compares the failing rows' attempts with the tries that the broker
// saw, and the times between them with the delay.
func (r *replicaRun) checkTries(ctx context.Context, figs figures) error {
	got, err := r.harvest(ctx, r.tries)
	if err != nil {
		return err
	}
	rows, err := r.db.rows(ctx)
	if err != nil {
		return err
	}
	tries, early, wrong, shortest := times(got), 0, 0, time.Hour
	for _, id := range r.failing {
		wrong += btoi(rows[id].Attempts != tries[id] || rows[id].Code != "nack" || rows[id].Status != "READY")
		gaps, err := r.gaps(ctx, id)
		if err != nil {
			return err
		}
		total := time.Duration(0)
		for _, gap := range gaps {
			early += btoi(gap < failingDelay-failingSlack)
			shortest, total = min(shortest, gap), total+gap
		}
		early += btoi(total < time.Duration(len(gaps))*failingDelay-failingSlack)
		r.Breaches.Equal(r.name+": tries in the history of "+id, len(gaps)+1, tries[id])
		if err := r.db.exec(ctx, "DELETE FROM trans_message WHERE id = ?", id); err != nil {
			return err
		}
	}
	r.Breaches.Equal(r.name+": failing rows", len(rows), failingRows)
	r.Breaches.Equal(r.name+": failing rows whose attempts are not the tries that the broker saw", wrong, 0)
	r.Breaches.Equal(r.name+": tries earlier than the row's own delay", early, 0)
	figs["tries"], figs["shortest_gap_ms"] = len(got), shortest.Milliseconds()
	return nil
}

// gaps returns the times between the failures in a row's history.
func (r *replicaRun) gaps(ctx context.Context, id string) ([]time.Duration, error) {
	at, err := r.db.strings(ctx, "SELECT at FROM trans_message_event "+
		"WHERE row_id = ? AND kind = 'nacked' ORDER BY id", id)
	var gaps []time.Duration
	last := int64(0)
	for i, s := range at {
		var ms int64
		if _, err := fmt.Sscan(s, &ms); err != nil {
			return nil, err
		}
		if i > 0 {
			gaps = append(gaps, time.Duration(ms-last)*time.Millisecond)
		}
		last = ms
	}
	return gaps, err
}
