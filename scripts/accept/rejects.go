package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	rejectMessages  = 150
	rejectSpecimens = 200
	rejectEqual     = 100 // equal bodies without an id
)

// rejectsCheck follows what two queues give up into the table and back.
func rejectsCheck() check {
	return check{
		name: "rejects",
		about: "what two queues give up is in the table with its id, or none; 200 specimens byte for byte; " +
			"100 equal bodies without an id are 100 rows; a replay reaches the one queue only",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			r := &rejects{world: w, exchange: w.name("orders"), key: w.name("paid"), dead: w.name("dead")}
			return r.run(ctx)
		}),
	}
}

// rejects is one run.
type rejects struct {
	*world
	exchange, key, dead string
	payments, mails     *giver
	messages            []rejectMessage
	specimens           map[string][]byte // properties by body
	stop                func() error
}

// rejectMessage is one that is published to both queues.
type rejectMessage struct {
	id    []byte // nil is none
	body  []byte
	mails bool // the second queue gives it up too
}

// giver is a consumer that gives up what it is told, until its cause is mended.
type giver struct {
	queue  string
	mended atomic.Bool
	bad    map[string]bool // bodies

	mu      sync.Mutex
	handled map[string][]consumer.Message // by body
	calls   int
}

func (g *giver) handle(_ context.Context, m *consumer.Message) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if g.bad[string(m.Body)] && !g.mended.Load() {
		return consumer.Permanent(errors.New("no such order"))
	}
	g.handled[string(m.Body)] = append(g.handled[string(m.Body)], *m)
	return nil
}

func (g *giver) count() (handled, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.handled), g.calls
}

// handledOf are the deliveries of a body that were handled.
func (g *giver) handledOf(body []byte) []consumer.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.handled[string(body)])
}

func (r *rejects) run(ctx context.Context) (_ figures, err error) {
	defer func() {
		if r.stop != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	for _, step := range []func(context.Context) error{
		r.prepare, r.publish, r.collected, r.replayed,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	_, calls := r.payments.count()
	return figures{
		"messages": rejectMessages, "given_up": len(r.payments.bad) + len(r.mails.bad), "specimens": rejectSpecimens,
		"equal": rejectEqual, "payments_calls": calls,
	}, nil
}

// prepare declares both queues behind one key, and starts their consumers and a collector.
func (r *rejects) prepare(ctx context.Context) error {
	if err := r.broker.Exchange(r.exchange, "topic", nil); err != nil {
		return err
	}
	r.payments = &giver{queue: r.name("payments"), bad: map[string]bool{}, handled: map[string][]consumer.Message{}}
	r.mails = &giver{queue: r.name("mails"), bad: map[string]bool{}, handled: map[string][]consumer.Message{}}
	for i := range rejectMessages {
		m := rejectMessage{body: fmt.Appendf(nil, "%d %s", i, bytesOf(r.Rand, 20)), mails: r.Rand.IntN(2) == 0}
		switch r.Rand.IntN(3) {
		case 0:
			m.id = []byte(model.NewID())
		case 1:
			m.id = fmt.Appendf(nil, "order %d/ü '\\ \xff%s", i, bytesOf(r.Rand, r.Rand.IntN(200)))
		}
		r.payments.bad[string(m.body)] = true
		if m.mails {
			r.mails.bad[string(m.body)] = true
		}
		r.messages = append(r.messages, m)
	}
	var stops []func() error
	for _, g := range []*giver{r.payments, r.mails} {
		stop, err := r.consume(ctx, g)
		if err != nil {
			return err
		}
		stops = append(stops, stop)
	}
	r.stop = func() error { return errors.Join(stops[0](), stops[1]()) }
	_, err := r.compensate("--collect", r.dead, "--interval", "200ms")
	return err
}

// consume declares the giver's queue and consumes it until stop is called.
func (r *rejects) consume(ctx context.Context, g *giver) (stop func() error, err error) {
	steps := effectSteps()
	if err := r.broker.Work(model.Ladder{Queue: g.queue, Steps: steps}, r.dead); err != nil {
		return nil, err
	}
	if err := r.broker.Bind(g.queue, r.exchange, r.key); err != nil {
		return nil, err
	}
	c, closeAll, err := openConsumer(r.url, consumer.Queue{
		Name: g.queue, DeadLetterExchange: r.dead, Steps: steps, Deadline: 20 * time.Second, Handler: g.handle,
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(running) }()
	return func() error {
		cancel()
		return errors.Join(<-done, closeAll())
	}, nil
}

// publish sends the messages through the exchange, and the specimens and the equal bodies to the dead-letter queue.
func (r *rejects) publish(ctx context.Context) error {
	for _, m := range r.messages {
		p := amqp.Publishing{MessageId: string(m.id), DeliveryMode: amqp.Persistent, Body: m.body, UserId: "guest"}
		if err := r.broker.Publish(ctx, r.exchange, r.key, p); err != nil {
			return err
		}
	}
	raw, err := amqptest.NewRawPublisher(r.url)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	r.specimens = map[string][]byte{}
	for i := range rejectSpecimens {
		s := wireSpecimen{r.Rand}
		properties, body := s.properties(i), fmt.Appendf(nil, "specimen %d %s", i, bytesOf(r.Rand, r.Rand.IntN(2000)))
		if err := raw.Publish(ctx, r.dead, properties, body); err != nil {
			return fmt.Errorf("specimen %d, properties %x: %w", i, properties, err)
		}
		r.specimens[string(body)] = properties
	}
	for range rejectEqual {
		if err := raw.Publish(ctx, r.dead, []byte{0, 0}, []byte("same")); err != nil {
			return err
		}
	}
	return nil
}

// collected waits for all letters and compares them with what was given up.
func (r *rejects) collected(ctx context.Context) error {
	want := map[string]int{}
	for _, m := range r.messages {
		want[letterLine(r.payments.queue, m.id, m.body)]++
		if m.mails {
			want[letterLine(r.mails.queue, m.id, m.body)]++
		}
	}
	want[letterLine(r.dead, nil, []byte("same"))] = rejectEqual
	total := len(r.payments.bad) + len(r.mails.bad) + rejectEqual + rejectSpecimens
	err := until(ctx, 2*time.Minute, "all letters are stored", func(ctx context.Context) (bool, error) {
		n, err := r.db.number(ctx, "SELECT COUNT(*) FROM trans_dead_letter")
		return n >= total, err
	})
	if err != nil {
		r.Breaches.Add("%v", err)
	}
	rows, err := r.db.db.QueryContext(ctx, "SELECT queue_name, message_id, payload, properties FROM trans_dead_letter")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var queue, id, body, properties []byte
		if err := rows.Scan(&queue, &id, &body, &properties); err != nil {
			return err
		}
		if p, ok := r.specimens[string(body)]; ok {
			r.Breaches.Check(bytes.Equal(p, properties), "%.14q: properties %s", body, difference(properties, p))
			delete(r.specimens, string(body)) // a second row of it is no letter that is wanted
			continue
		}
		line := letterLine(string(queue), id, body)
		if r.Breaches.Check(want[line] > 0, "a row that nobody gave up, or one too many: %.200q", line) {
			want[line]--
		}
	}
	for line, n := range want {
		r.Breaches.Check(n == 0, "%d rows are missing of %.200q", n, line)
	}
	r.Breaches.Equal("specimens that are not stored", len(r.specimens), 0)
	return rows.Err()
}

// difference shows where two byte strings differ.
func difference(got, want []byte) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Sprintf("of %d bytes have %.60q at %d, want of %d bytes %.60q", len(got), got[at:], at, len(want),
		want[at:])
}

// letterLine names a letter by what must hold of it.
func letterLine(queue string, id, body []byte) string {
	if id == nil {
		return fmt.Sprintf("%q without an id: %q", queue, body)
	}
	return fmt.Sprintf("%q id %q: %q", queue, id, body)
}

// replayed mends the payments' cause and replays what that queue gave up: it reaches this queue once, and no other.
func (r *rejects) replayed(ctx context.Context) error {
	r.payments.mended.Store(true)
	r.mails.mended.Store(true) // a copy that came by mistake would be handled, and seen
	mailsHandled, mailsCalls := r.mails.count()
	for _, want := range []int{rejectMessages, 0} { // the second click does nothing
		var done struct {
			DeadLetters int `json:"dead_letters"`
			Refused     []any
		}
		err := r.letterVerb(ctx, &done, "replay", "--queue", r.payments.queue, "--rate", "0", "--yes")
		if err != nil {
			return err
		}
		r.Breaches.Equal("letters replayed", done.DeadLetters, want)
		r.Breaches.Equal("letters refused", len(done.Refused), 0)
	}
	err := until(ctx, 2*time.Minute, "the payments are made", func(ctx context.Context) (bool, error) {
		handled, _ := r.payments.count()
		empty, err := r.db.empty(ctx)
		return handled >= rejectMessages && empty, err
	})
	if err != nil {
		r.Breaches.Add("%v", err)
	}
	for _, m := range r.messages {
		got := r.payments.handledOf(m.body)
		if r.Breaches.Check(len(got) == 1, "message %.40q was handled %d times after its replay, want 1", m.body,
			len(got)) {
			r.Breaches.Check(got[0].ID == string(m.id), "message %.40q has the id %q, want %q", m.body, got[0].ID, m.id)
		}
	}
	handled, calls := r.mails.count()
	r.Breaches.Equal("calls of the other queue during the replay", calls-mailsCalls, 0)
	r.Breaches.Equal("messages of the other queue", handled, mailsHandled)
	var group struct{ Became map[string]int }
	if err := r.letterVerb(ctx, &group, "groups", "--queue", r.payments.queue, "--status", "REPLAYED"); err != nil {
		return err
	}
	r.Breaches.Equal("what became of them", fmt.Sprint(group.Became),
		fmt.Sprint(map[string]int{"sent": rejectMessages}))
	return nil
}

// letterVerb runs one of `transmsg dead-letters` with --json and reads the one line that it printed.
func (w *world) letterVerb(ctx context.Context, into any, args ...string) error {
	all := append([]string{"dead-letters"}, append(args, "--json", "--store", w.dsn)...)
	cmd := exec.CommandContext(ctx, w.binary, all...)
	cmd.Dir, cmd.Env = w.Dir, plainEnv()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		return fmt.Errorf("transmsg dead-letters %s: %w: %.300s%s", args[0], err, out, stderr.String())
	}
	return nil
}
