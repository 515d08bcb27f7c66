package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	poisonEach    = 50
	poisonGood    = 1000
	poisonRevoked = 20_000
	poisonMaxBody = 64 << 10 // of the broker
	// poisonHandful is the most channels that may be opened for the revoked exchange.
	poisonHandful = 20
	poisonWatch   = 15 * time.Second
)

// poisonCheck puts rows that break things in front of good ones.
func poisonCheck() check {
	return check{
		name: "poison",
		about: "50 rows of each of 8 kinds of poison before 1,000 good ones, and a revoked exchange with 20,000: " +
			"the good ones pass, each poison has its cause",
		run: func(ctx context.Context, e *env) (figures, error) {
			if err := serversOnly(e); err != nil {
				return nil, err
			}
			w, err := newPoisonWorld(ctx, e)
			if err != nil {
				return nil, err
			}
			defer w.close()
			p := &poison{world: w, mark: letters(w.Rand, 6), figs: figures{}}
			if err := p.topology(); err != nil {
				return nil, err
			}
			if err := p.front(ctx); err != nil {
				return p.figs, err
			}
			return p.figs, p.revoked(ctx)
		},
	}
}

// newPoisonWorld is a world whose broker takes small messages only.
func newPoisonWorld(ctx context.Context, e *env) (*world, error) {
	w, err := newWorld(ctx, e, worldOptions{})
	if err != nil {
		return nil, err
	}
	if w.node, err = amqptest.NewNode(ctx, "", amqptest.Options{
		Config: []string{fmt.Sprintf("max_message_size = %d", poisonMaxBody)},
	}); err != nil {
		w.close()
		return nil, err
	}
	w.later(w.node.Close)
	w.url = w.node.URL()
	if w.broker, err = w.client(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

type poison struct {
	*world
	mark string // ends every name
	http string
	all  []replica
	good []string
	figs figures
}

// name returns the name of one exchange or queue; they stand in a permission's pattern.
func (p *poison) name(of string) string { return of + "-" + p.mark }

func (p *poison) topology() error {
	for _, err := range []error{
		p.broker.Exchange(p.name("good"), "fanout", nil),
		p.broker.Queue(amqptest.QueueSpec{Name: p.name("main")}),
		p.broker.Bind(p.name("main"), p.name("good"), ""),
		p.broker.Exchange(p.name("forbidden"), "fanout", nil),
		p.broker.InternalExchange(p.name("internal"), "fanout"),
		p.broker.Exchange(p.name("revoked"), "fanout", nil),
		p.broker.Queue(amqptest.QueueSpec{Name: p.name("late")}),
		p.broker.Bind(p.name("late"), p.name("revoked"), ""),
		p.node.AddUser("compensator", "secret", "", p.may(true), ""),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// may is the pattern of exchanges that the compensator may write to.
func (p *poison) may(revoked bool) string {
	names := []string{p.name("good"), p.name("internal"), p.name("missing")}
	if revoked {
		names = append(names, p.name("revoked"))
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// compensatorURL is the broker's for the user with those rights.
func (p *poison) compensatorURL() (string, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return "", err
	}
	u.User = url.UserPassword("compensator", "secret")
	return u.String(), nil
}

// front stores the poison, then the good rows, and starts the compensator.
func (p *poison) front(ctx context.Context) error {
	kinds := p.kinds()
	if err := p.fill(ctx, kinds); err != nil {
		return err
	}
	box := openMailbox(ctx, p.url, p.name("main"))
	p.later(box.close)
	if err := p.start(); err != nil {
		return err
	}
	begin := time.Now()
	if err := until(ctx, 2*time.Minute, "the good messages have arrived", func(context.Context) (bool, error) {
		n, _ := box.arrived(p.good)
		return n == poisonGood, nil
	}); err != nil {
		p.Breaches.Add("%v", err)
	}
	runs, err := metric(ctx, p.http, "transmsg_runs_started_total")
	if err != nil {
		return err
	}
	p.figs["runs_until_good_arrived"], p.figs["seconds_until_good_arrived"] = runs, time.Since(begin).Seconds()
	p.Breaches.AtMost("runs until the good messages had arrived", int64(runs), 2)
	if err := until(ctx, 2*time.Minute, "the good rows are gone", func(ctx context.Context) (bool, error) {
		n, err := p.db.count(ctx, "message_key LIKE 'good-%'")
		return n == 0, err
	}); err != nil {
		p.Breaches.Add("%v", err)
	}
	p.figs["seconds_until_good_rows_gone"] = time.Since(begin).Seconds()
	if err := p.checkGood(ctx, box); err != nil {
		return err
	}
	return p.checkCauses(ctx, kinds)
}

func (p *poison) start() (err error) {
	if p.http, err = freeAddr(); err != nil {
		return err
	}
	direct := p.url
	defer func() { p.url = direct }()
	if p.url, err = p.compensatorURL(); err != nil {
		return err
	}
	p.all, err = p.replicas("poison", 1, "--http", p.http, "--interval", "2s", "--max-delay", "4s",
		"--batch", fmt.Sprint(50+p.Rand.IntN(450)))
	return err
}

// fill stores the kinds in a seeded order, all due before the good rows.
func (p *poison) fill(ctx context.Context, kinds []poisonKind) error {
	var messages []model.Message
	var of []*poisonKind
	for i := range kinds {
		for range poisonEach {
			messages = append(messages, kinds[i].message())
			of = append(of, &kinds[i])
		}
	}
	p.Rand.Shuffle(len(of), func(i, j int) {
		messages[i], messages[j] = messages[j], messages[i]
		of[i], of[j] = of[j], of[i]
	})
	ids, err := p.shelve(ctx, "good", messages) // the same service, so that they are in front
	if err != nil {
		return err
	}
	for i, id := range ids {
		k := of[i]
		k.ids = append(k.ids, id)
		if k.spoil != nil {
			if err := k.spoil(ctx, id); err != nil {
				return err
			}
		}
	}
	if err := p.db.exec(ctx, "UPDATE trans_message SET next_attempt_at = next_attempt_at - 60000"); err != nil {
		return err
	}
	good := make([]model.Message, poisonGood)
	for i := range good {
		good[i] = p.message(p.name("good"), "key", i, 1024)
		good[i].Key = fmt.Sprintf("good-%d", i)
	}
	p.good, err = p.shelve(ctx, "good", good)
	return err
}

// checkGood looks at the good messages' arrivals and history.
func (p *poison) checkGood(ctx context.Context, box *mailbox) error {
	spent, err := p.db.charged(ctx)
	if err != nil {
		return err
	}
	bad := map[string]bool{}
	for _, id := range spent {
		bad[id] = true
	}
	charged := 0
	for _, id := range p.good {
		charged += btoi(bad[id])
	}
	if err := box.close(); err != nil {
		return err
	}
	n, _ := box.arrived(p.good)
	p.Breaches.Equal("good messages that arrived", n, poisonGood)
	p.Breaches.Equal("good messages charged with an attempt", charged, 0)
	p.Breaches.Equal("poison that arrived", len(box.first)-n, 0)
	p.figs["good_arrived"], p.figs["repeats"] = n, box.repeated()
	return nil
}

// checkCauses waits until each poison row has its own cause.
func (p *poison) checkCauses(ctx context.Context, kinds []poisonKind) error {
	var causes map[string]string
	if err := until(ctx, time.Minute, "each poison row has its own cause", func(ctx context.Context) (bool, error) {
		wrong := 0
		causes = map[string]string{}
		for _, k := range kinds {
			n, err := p.wrong(ctx, k, causes)
			if err != nil {
				return false, err
			}
			wrong += n
		}
		return wrong == 0, nil
	}); err != nil {
		p.Breaches.Add("%v: %v", err, causes)
	}
	p.figs["causes"] = causes
	return nil
}

// wrong counts the rows of a kind that are not in the state they belong in.
func (p *poison) wrong(ctx context.Context, k poisonKind, causes map[string]string) (int, error) {
	right, list := 0, "'"+strings.Join(k.ids, "','")+"'"
	found, err := p.db.strings(ctx, "SELECT CONCAT(status, ' ', last_code, ' ', last_error) FROM trans_message "+
		"WHERE id IN ("+list+")")
	if err != nil {
		return 0, err
	}
	for _, s := range found {
		if strings.HasPrefix(s, k.state+" ") && strings.Contains(s, k.text) {
			right++
			continue
		}
		causes[k.name+" (wrong)"] = fmt.Sprintf("%.200q", s)
	}
	causes[k.name] = fmt.Sprintf("%s: %d of %d", k.state, right, poisonEach)
	return poisonEach - right, nil
}
