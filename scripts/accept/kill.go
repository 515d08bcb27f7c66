package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

const kills = 20

// killCheck kills a publishing process again and again. The process writes each
// id for which Publish returned nil to a pipe before it goes on.
func killCheck() check {
	return check{
		name:  "kill",
		about: "a publisher killed with -9 at 20 moments: all it acknowledged is delivered, with few and equal repeats",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			k := &kill{world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key")}
			if err := w.route(k.exchange, "topic", k.key, amqptest.QueueSpec{Name: k.queue}); err != nil {
				return nil, err
			}
			return k.run(ctx)
		}),
	}
}

type kill struct {
	*world
	exchange, queue, key string
	orders               []killOrder
	acknowledged         []map[string]string // per round: id to serial
}

// killOrder is what a publishing child is told.
type killOrder struct {
	Spec          serviceSpec
	Exchange, Key string
	Seed          uint64
	Round         int
	Workers       int
	Batch         int // messages per call
	MaxBody       int
	Ready         bool // wait for the broker before publishing
}

// killBody is the body of one message; both processes can compute it.
func killBody(seed uint64, round, serial, limit int) []byte {
	r := rand.New(rand.NewPCG(seed^uint64(round)<<40, uint64(serial)))
	return append(fmt.Appendf(nil, "%d/%d ", round, serial), bytesOf(r, size(r, limit))...)
}

// publishChild publishes until it is killed.
func publishChild(ctx context.Context, data []byte) error {
	var o killOrder
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	svc, err := openService(ctx, o.Spec)
	if err != nil {
		return err
	}
	if o.Ready {
		if err := svc.ready(ctx); err != nil {
			return err
		}
	}
	fmt.Println("up")
	var serial atomic.Int64
	failed := make(chan error)
	for range o.Workers {
		go func() {
			for {
				batch := make([]model.Message, o.Batch)
				for i := range batch {
					n := int(serial.Add(1))
					batch[i] = model.Message{
						Exchange: o.Exchange, RoutingKey: o.Key, Body: killBody(o.Seed, o.Round, n, o.MaxBody),
						Properties: model.Properties{CorrelationID: fmt.Sprintf("%d/%d", o.Round, n)},
					}
				}
				receipts, err := svc.pub.PublishBatch(ctx, batch)
				if err != nil {
					failed <- err
					return
				}
				for i, r := range receipts { // One write each, of less than a pipe's atomic size.
					fmt.Fprintf(os.Stdout, "%s %s\n", r.ID(), batch[i].Properties.CorrelationID)
				}
			}
		}()
	}
	return <-failed
}

func (k *kill) run(ctx context.Context) (figures, error) {
	rowsLeft, hit := 0, 0
	for round := range kills {
		if err := k.plan(round); err != nil {
			return nil, err
		}
		if err := k.round(round); err != nil {
			return nil, fmt.Errorf("kill %d: %w", round+1, err)
		}
		n, err := k.db.count(ctx, "1 = 1")
		if err != nil {
			return nil, err
		}
		if n > rowsLeft {
			hit++
		}
		rowsLeft = n
	}
	// A kill that leaves no row met a process that had nothing in its hands.
	k.Breaches.AtLeast("kills that hit work in progress", int64(hit), kills/2)
	d, err := k.compensate("--confirm-timeout", "5s")
	if err != nil {
		return nil, err
	}
	if err := until(ctx, 2*time.Minute, "the compensator has emptied the table", k.db.empty); err != nil {
		return nil, err
	}
	if err := d.stop(); err != nil {
		return nil, err
	}
	got, err := k.harvest(ctx, k.queue)
	if err != nil {
		return nil, err
	}
	figs := figures{"kills": kills, "kills_with_rows_left": hit, "rows_left": rowsLeft, "deliveries": len(got)}
	k.check(got, figs)
	return figs, nil
}

// plan chooses how the round's process is set up. Every other has a database
// that is far away, so that confirmed rows queue up to be deleted.
func (k *kill) plan(round int) error {
	dsn := k.dsn
	if round%2 == 1 && k.Store != "sqlite" {
		proxy, through, err := proxied(k.Store, k.dsn)
		if err != nil {
			return err
		}
		k.later(proxy.Close)
		proxy.Delay(faultproxy.ToClient, time.Duration(10+k.Rand.IntN(200))*time.Millisecond)
		dsn = through
	}
	k.orders = append(k.orders, killOrder{
		Spec: serviceSpec{
			DSN: dsn, AMQP: k.url, ConfirmTimeout: 5 * time.Second, SendBudget: time.Second,
			Window: 10 + k.Rand.IntN(500), MaxUnsettled: 50 + k.Rand.IntN(500),
		},
		Exchange: k.exchange, Key: k.key, Seed: k.Seed, Round: round,
		Workers: 1 + k.Rand.IntN(64), Batch: []int{1, 1, 1 + k.Rand.IntN(50)}[k.Rand.IntN(3)],
		MaxBody: 1 << k.Rand.IntN(14), Ready: k.Rand.IntN(5) > 0,
	})
	k.acknowledged = append(k.acknowledged, map[string]string{})
	return nil
}

// round runs one process, kills it and reads its ledger to the end.
func (k *kill) round(round int) error {
	wait := time.Duration(k.Rand.Int64N(int64(time.Second)))
	c, err := startChild("publish", k.orders[round])
	if err != nil {
		return err
	}
	killed := make(chan error, 1)
	lines := bufio.NewScanner(c.out)
	for lines.Scan() {
		if lines.Text() == "up" {
			go func() {
				time.Sleep(wait) // The random moment.
				killed <- c.kill()
			}()
			continue
		}
		id, serial, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			return fmt.Errorf("ledger line %q", lines.Text())
		}
		k.acknowledged[round][id] = serial
	}
	select {
	case err = <-killed:
	case <-time.After(2 * time.Second): // The pipe closed before the kill: it ended by itself.
	}
	if err != nil {
		return err
	}
	return c.wait()
}

// check compares all deliveries with the ledgers.
func (k *kill) check(got []amqp.Delivery, figs figures) {
	type first struct {
		serial string
		sum    [32]byte
	}
	seen, ids := map[string]first{}, map[string]string{}
	repeats, strangers, distinct := make([]int, kills), 0, make([]int, kills)
	unlike, changed := 0, 0
	for _, d := range got {
		var round, serial int
		_, err := fmt.Sscanf(d.CorrelationId, "%d/%d", &round, &serial)
		if err != nil || round < 0 || round >= kills {
			strangers++
			continue
		}
		o := k.orders[round]
		sum := sha256.Sum256(d.Body)
		if sum != sha256.Sum256(killBody(o.Seed, round, serial, o.MaxBody)) {
			changed++
		}
		if f, ok := seen[d.MessageId]; ok {
			repeats[round]++
			if f != (first{d.CorrelationId, sum}) {
				unlike++
			}
			continue
		}
		seen[d.MessageId] = first{d.CorrelationId, sum}
		distinct[round]++
		if other, ok := ids[d.CorrelationId]; ok && other != d.MessageId {
			unlike++
		}
		ids[d.CorrelationId] = d.MessageId
	}
	acknowledged, lost := 0, 0
	for round, ledger := range k.acknowledged {
		acknowledged += len(ledger)
		for id, serial := range ledger {
			if f, ok := seen[id]; !ok || f.serial != serial {
				lost++
			}
		}
		o := k.orders[round]
		// Each caller had at most one call between the commit and the ledger.
		k.Breaches.AtMost("delivered beyond the ledger", int64(distinct[round]-len(ledger)), int64(o.Workers*o.Batch))
		k.Breaches.AtMost(fmt.Sprintf("repeats after kill %d", round+1), int64(repeats[round]),
			int64(o.Spec.Window+o.Spec.MaxUnsettled))
	}
	k.Breaches.AtLeast("acknowledged messages", int64(acknowledged), kills*10)
	k.Breaches.Equal("acknowledged messages that were not delivered", lost, 0)
	k.Breaches.Equal("repeats with another id or body", unlike, 0)
	k.Breaches.Equal("bodies changed on the way", changed, 0)
	k.Breaches.Equal("deliveries that nobody published", strangers, 0)
	figs["acknowledged"], figs["repeats"] = acknowledged, repeats
}
