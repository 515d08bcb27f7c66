package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

// verb runs one of `transmsg messages` with --json and returns what it printed.
func (d *dead) verb(ctx context.Context, args ...string) ([]byte, error) {
	all := append([]string{"messages"}, append(args, "--json", "--store", d.dsn)...)
	cmd := exec.CommandContext(ctx, d.binary, all...)
	cmd.Dir, cmd.Env = d.Dir, plainEnv()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("transmsg messages %s: %w: %s", args[0], err, stderr.String())
	}
	return out, nil
}

// grouped compares `messages groups` with what was stored.
func (d *dead) grouped(ctx context.Context) error {
	out, err := d.verb(ctx, "groups")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	d.Breaches.Equal("groups", len(lines), len(d.groups))
	for _, l := range lines {
		var g struct {
			Service, Exchange, Code string
			RoutingKey              string `json:"routing_key"`
			Messages                int
			First, Last             time.Time
			SampleID                string `json:"sample_id"`
			SampleKey               string `json:"sample_key"`
		}
		if err := json.Unmarshal([]byte(l), &g); err != nil {
			return fmt.Errorf("groups: %.200q: %w", l, err)
		}
		want := d.groups[g.Code]
		if !d.Breaches.Check(want != nil, "groups: the unknown cause %q", g.Code) {
			continue
		}
		d.Breaches.Check(g.Service == serviceName && g.Exchange == d.exchange && g.RoutingKey == want.key &&
			g.Messages == len(want.ids) && want.business[g.SampleID] == g.SampleKey && g.SampleKey != "" &&
			!g.First.IsZero() && !g.Last.Before(g.First),
			"groups: got %.300s, want %d messages of %s", l, len(want.ids), want.key)
	}
	return nil
}

// replayed mends the cause of one group and replays it twice at the same time.
func (d *dead) replayed(ctx context.Context) error {
	g := d.groups["312"]
	if err := d.broker.Bind(d.queue, d.exchange, g.key); err != nil {
		return err
	}
	if _, err := d.harvest(ctx, d.queue); err != nil { // the good ones of before
		return err
	}
	var both sync.WaitGroup
	counts, errs := make([]int, 2), make([]error, 2)
	for i := range 2 {
		both.Go(func() {
			var out []byte
			out, errs[i] = d.verb(ctx, "replay", "--code", "312", "--yes", "--rate", "0",
				"--actor", fmt.Sprintf("operator-%d", i))
			var result struct{ Messages int }
			if errs[i] == nil {
				errs[i] = json.Unmarshal(out, &result)
			}
			counts[i] = result.Messages
		})
	}
	both.Wait()
	for _, err := range errs {
		d.Breaches.Check(err == nil, "two replays at once: %v", err)
	}
	d.Breaches.Equal("messages that the two replays count", counts[0]+counts[1], len(g.ids))
	d.figs["replayed_by_each"] = counts
	if err := d.gone(ctx, "routing_key = '"+g.key+"'"); err != nil {
		return err
	}
	got, err := d.harvest(ctx, d.queue)
	if err != nil {
		return err
	}
	n, once := times(got), 0
	for _, id := range g.ids {
		once += btoi(n[id] == 1)
	}
	d.Breaches.Equal("replayed messages sent once", once, len(g.ids))
	d.Breaches.Equal("deliveries after the replays", len(got), len(g.ids))
	acts, err := d.db.number(ctx, "SELECT COUNT(*) FROM trans_message_event "+
		"WHERE kind = 'replay' AND actor LIKE 'operator-%'")
	d.Breaches.Equal("replays in the history, with their actor", acts, len(g.ids))
	return err
}

func (d *dead) gone(ctx context.Context, where string) error {
	err := until(ctx, time.Minute, "no row is left with "+where, func(ctx context.Context) (bool, error) {
		n, err := d.db.count(ctx, where)
		return n == 0, err
	})
	if err != nil {
		d.Breaches.Add("%v", err)
	}
	return ctx.Err()
}

// corrected edits a DEAD message of the spoilt ones and replays it.
func (d *dead) corrected(ctx context.Context) error {
	g := d.groups["corrupt"]
	id, body := g.ids[d.Rand.IntN(len(g.ids))], "corrected "+letters(d.Rand, 12)
	if _, err := d.verb(ctx, "edit", id, "--yes", "--body", body, "--routing-key", "good",
		"--reset-properties"); err != nil {
		return err
	}
	if _, err := d.verb(ctx, "replay", id, "--yes", "--rate", "0"); err != nil {
		return err
	}
	if err := d.gone(ctx, "id = '"+id+"'"); err != nil {
		return err
	}
	got, err := d.harvest(ctx, d.queue)
	if err != nil {
		return err
	}
	d.Breaches.Equal("deliveries after the edit", len(got), 1)
	for _, m := range got {
		d.Breaches.Check(m.MessageId == id && string(m.Body) == body,
			"after the edit: got %s with %.60q, want %s with %q", m.MessageId, m.Body, id, body)
	}
	return nil
}

// lateAck edits a message whose send is unanswered, and lets the broker's answer through
// afterwards.
func (d *dead) lateAck(ctx context.Context) error {
	if err := d.stopAll([]replica{d.now}); err != nil {
		return err
	}
	proxy, through, err := proxiedURL(d.url)
	if err != nil {
		return err
	}
	d.later(proxy.Close)
	svc, err := d.service(ctx, serviceSpec{
		AMQP: through, ConfirmTimeout: 500 * time.Millisecond, SendBudget: time.Second,
	})
	if err != nil {
		return err
	}
	if err := svc.ready(ctx); err != nil {
		return err
	}
	// The first message makes the exchange known, which needs an answer too.
	if _, err := d.publishOne(ctx, svc, []byte("first"), model.Acked); err != nil {
		return err
	}
	proxy.Stall(faultproxy.ToClient)
	old, body := []byte("old "+letters(d.Rand, 12)), "corrected "+letters(d.Rand, 12)
	id, err := d.publishOne(ctx, svc, old, model.Unknown)
	if err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "the row is READY again", func(ctx context.Context) (bool, error) {
		n, err := d.db.count(ctx, "id = '"+id+"' AND last_code = 'timeout'")
		return n == 1, err
	}); err != nil {
		return err
	}
	if _, err := d.verb(ctx, "edit", id, "--body", body, "--yes"); err != nil {
		return err
	}
	proxy.Resume()
	if err := until(ctx, 10*time.Second, "the late ack has come", func(context.Context) (bool, error) {
		return svc.sender.Stats().LateAcks > 0, nil
	}); err != nil {
		return err
	}
	if err := svc.close(ctx); err != nil { // it has written what it wants to write
		return err
	}
	return d.bothBodies(ctx, id, []string{string(old), body})
}

// bothBodies wants the edited row to be there still, and its message in the queue beside
// that of the old send.
func (d *dead) bothBodies(ctx context.Context, id string, want []string) error {
	left, err := d.db.count(ctx, "id = '"+id+"' AND status = 'READY'")
	if err != nil {
		return err
	}
	d.Breaches.Equal("edited rows after the late ack of the old send", left, 1)
	if err := d.start(); err != nil {
		return err
	}
	if err := d.gone(ctx, "id = '"+id+"'"); err != nil {
		return err
	}
	got, err := d.harvest(ctx, d.queue)
	if err != nil {
		return err
	}
	var bodies []string
	for _, m := range got[min(1, len(got)):] {
		d.Breaches.Equal("id of the edited message", m.MessageId, id)
		bodies = append(bodies, string(m.Body))
	}
	d.Breaches.Equal("bodies of the old send and the edited one", bodies, want)
	return d.stopAll([]replica{d.now})
}

// publishOne publishes a message and wants its outcome. It returns the id.
func (d *dead) publishOne(ctx context.Context, svc *service, body []byte, want model.OutcomeKind) (string, error) {
	receipt, err := svc.pub.Publish(ctx, model.Message{Exchange: d.exchange, RoutingKey: "good", Body: body})
	if err != nil {
		return "", err
	}
	o, err := receipt.Wait(ctx)
	if err != nil {
		return "", err
	}
	d.Breaches.Equal(fmt.Sprintf("outcome of %q", body), o.Kind, want)
	return receipt.ID(), nil
}
