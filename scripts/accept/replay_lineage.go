package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

const lineages = 30

// What an operator does with the letter that waits at the end of a lineage.
const (
	sendAsIs  = 'r' // it fails again
	editBad   = 'b' // it fails again
	editGood  = 'g' // it is handled
	editAgain = 'a' // after that: corrected and sent once more, and skipped, since its id was handled
	editAsNew = 'n' // the same with a new id: a second effect
)

// replayLineageCheck sends letters back again and again, each by two operators at once.
func replayLineageCheck() check {
	return check{
		name: "replay-lineage",
		about: "dead letters replayed, failed again, edited, replayed, each time by two operators at once: one " +
			"lineage, each effect as often as it should be, and show counts what the consumer counted",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			r := &replayLineage{
				world: w, queue: w.name("payments"), dead: w.name("dead"), gaveUp: map[string]int{},
				calls: map[string]int{},
			}
			return r.run(ctx)
		}),
	}
}

// replayLineage is one run.
type replayLineage struct {
	*world
	queue, dead string
	all         []*lineage
	stop        func() error
	wantCalls   int
	wantLetters int

	mu            sync.Mutex
	gaveUp, calls map[string]int // by message id
	total         int
}

// lineage is one message and what was made of it.
type lineage struct {
	id     string // the message's
	plan   string // after the first replay, which fails again
	leaf   string // the letter at its end
	first  string
	number int
}

func (r *replayLineage) run(ctx context.Context) (_ figures, err error) {
	defer func() {
		if r.stop != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	longest := 0
	for _, l := range r.all {
		longest = max(longest, len(l.plan))
	}
	for step := range longest {
		if err := r.step(ctx, step); err != nil {
			return nil, err
		}
	}
	replays := 0
	for _, l := range r.all {
		n, err := r.check(ctx, l)
		if err != nil {
			return nil, err
		}
		replays += n
	}
	letters, err := r.db.number(ctx, "SELECT COUNT(*) FROM trans_dead_letter")
	r.Breaches.Equal("letters in all", letters, r.wantLetters)
	return figures{"lineages": lineages, "letters": letters, "replays": replays, "calls": r.total}, errors.Join(err,
		r.became(ctx))
}

// prepare makes messages that fail, consumes and collects them, and lets each fail again after a first replay.
func (r *replayLineage) prepare(ctx context.Context) error {
	if err := r.db.exec(ctx, "CREATE TABLE effects (message VARCHAR(64) NOT NULL, lineage INT NOT NULL)"); err != nil {
		return err
	}
	if err := r.broker.Work(model.Ladder{Queue: r.queue, Steps: effectSteps()}, r.dead); err != nil {
		return err
	}
	if err := r.consume(ctx); err != nil {
		return err
	}
	if _, err := r.compensate("--collect", r.dead, "--interval", "200ms"); err != nil {
		return err
	}
	plans := []string{"g", "rg", "bg", "ga", "gn", "bga", "rbgn"}
	for i := range lineages {
		l := &lineage{id: model.NewID(), plan: string(sendAsIs) + plans[r.Rand.IntN(len(plans))], number: i}
		m := amqp.Publishing{MessageId: l.id, DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "bad %d", i)}
		if err := r.broker.Publish(ctx, "", r.queue, m); err != nil {
			return err
		}
		r.all = append(r.all, l)
	}
	r.wantCalls, r.wantLetters = lineages, lineages
	if err := r.settled(ctx); err != nil {
		return err
	}
	for _, l := range r.all {
		var listed struct{ ID string }
		if err := r.letterVerb(ctx, &listed, "list", "--message-id", l.id); err != nil {
			return err
		}
		l.first, l.leaf = listed.ID, listed.ID
	}
	return nil
}

// consume has one effect for each message whose body is good, and gives up the others.
func (r *replayLineage) consume(ctx context.Context) error {
	store, err := anystore.Open(ctx, r.dsn, gormstore.Options{})
	if err != nil {
		return err
	}
	r.later(store.Close)
	once, err := effect.New(effect.Config{Consumer: "payments", Store: store})
	if err != nil {
		return err
	}
	insert := r.db.rebind("INSERT INTO effects (message, lineage) VALUES (?, ?)")
	handle := once.InTx(r.db.db, nil, func(ctx context.Context, tx *sql.Tx, _ *publisher.Tx,
		m *consumer.Message,
	) error {
		word, number, _ := strings.Cut(string(m.Body), " ")
		if word != "good" {
			return consumer.Permanent(errors.New("no such order"))
		}
		_, err := tx.ExecContext(ctx, insert, m.ID, number)
		return err
	})
	c, closeAll, err := openConsumer(r.url, consumer.Queue{
		Name: r.queue, DeadLetterExchange: r.dead, Steps: effectSteps(), Deadline: 20 * time.Second,
		Handler: func(ctx context.Context, m *consumer.Message) error {
			err := handle(ctx, m)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.calls[m.ID]++
			r.total++
			if err != nil && !consumer.IsSkipped(err) {
				r.gaveUp[m.ID]++
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(running) }()
	r.stop = func() error {
		cancel()
		return errors.Join(<-done, closeAll())
	}
	return nil
}

// settled waits until everything that was sent has come to an end.
func (r *replayLineage) settled(ctx context.Context) error {
	err := until(ctx, 2*time.Minute, "everything is handled or collected", func(ctx context.Context) (bool, error) {
		letters, err := r.db.number(ctx, "SELECT COUNT(*) FROM trans_dead_letter")
		if err != nil {
			return false, err
		}
		empty, err := r.db.empty(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		return empty && letters >= r.wantLetters && r.total >= r.wantCalls, err
	})
	if err != nil {
		return fmt.Errorf("%w; the consumer had %d of %d", err, r.total, r.wantCalls)
	}
	return nil
}

// step does the step-th action of each plan, and follows those that fail again.
func (r *replayLineage) step(ctx context.Context, step int) error {
	var asNew, asBefore, failing []*lineage
	for _, l := range r.all {
		if step >= len(l.plan) {
			continue
		}
		action := l.plan[step]
		if err := r.edit(ctx, l, action); err != nil {
			return err
		}
		r.wantCalls++
		if action == sendAsIs || action == editBad {
			r.wantLetters++
			failing = append(failing, l)
		}
		if action == editAsNew {
			asNew = append(asNew, l)
		} else {
			asBefore = append(asBefore, l)
		}
	}
	if err := errors.Join(r.twice(ctx, asBefore), r.twice(ctx, asNew, "--as-new")); err != nil {
		return err
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	for _, l := range failing {
		var shown shownLetter
		if err := r.letterVerb(ctx, &shown, "show", l.leaf); err != nil {
			return err
		}
		if !r.Breaches.Check(len(shown.Children) == 1 && shown.Became == "failed-again",
			"letter %s became %q and has %d children, want one that failed again", l.leaf, shown.Became,
			len(shown.Children)) {
			return nil
		}
		child := shown.Children[0]
		r.Breaches.Check(child.Status == "PARKED" && child.Replays == shown.Replays+1,
			"the letter that came back is %s with %d replays, want PARKED with %d", child.Status, child.Replays,
			shown.Replays+1)
		l.leaf = child.ID
	}
	return nil
}

func (r *replayLineage) edit(ctx context.Context, l *lineage, action byte) error {
	word := "good"
	switch action {
	case sendAsIs:
		return nil
	case editBad:
		word = "bad"
	}
	var done struct{ Applied bool }
	return r.letterVerb(ctx, &done, "edit", l.leaf, "--body", fmt.Sprintf("%s %d", word, l.number), "--yes")
}

// twice has two operators replay the letters at the same time, and one of them once more: each letter is sent back
// once.
func (r *replayLineage) twice(ctx context.Context, list []*lineage, flags ...string) error {
	if len(list) == 0 {
		return nil
	}
	args := append([]string{"replay", "--rate", "0", "--yes"}, flags...)
	for _, l := range list {
		args = append(args, l.leaf)
	}
	counts, errs := make([]int, 3), make([]error, 3)
	click := func(i int) {
		var done struct {
			DeadLetters int `json:"dead_letters"`
		}
		errs[i] = r.letterVerb(ctx, &done, append(args, "--actor", fmt.Sprintf("operator-%d", i%2))...)
		counts[i] = done.DeadLetters
	}
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() { click(i) })
	}
	both.Wait()
	click(2)
	r.Breaches.Check(counts[0]+counts[1] == len(list) && counts[2] == 0,
		"three clicks sent %v letters back, want %d by the first two and 0 by the third", counts, len(list))
	return errors.Join(errs...)
}
