package model_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// death is an x-death as the broker writes it, with one field changed.
func death(key string, value any) []any {
	d := map[string]any{
		"queue": "q", "reason": "rejected", "exchange": "ex", "routing-keys": []any{"k"},
		"count": int64(1), "time": time.Unix(1_700_000_000, 0).UTC(),
	}
	if key != "" {
		d[key] = value
	}
	return []any{d}
}

var malformedDeaths = map[string]any{
	"text":        "?",
	"no tables":   []any{"?"},
	"count":       death("count", "many"),
	"queue":       death("queue", int64(3)),
	"reason":      death("reason", nil),
	"exchange":    death("exchange", true),
	"keys":        death("routing-keys", "k"),
	"keys inside": death("routing-keys", []any{int64(1)}),
	"time":        death("time", "today"),
}

// F4: a malformed x-death is refused with the reason before it is stored, and in a row written by SQL; one
// that a consumer forwards passes.
func TestF4_MalformedDeathHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range malformedDeaths {
		m := model.Message{Exchange: "ex", Headers: map[string]any{"x-death": value}}
		_, err := model.Normalize(m, time.Now(), model.Limits{})
		var invalid *model.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != `headers["x-death"]` {
			t.Errorf("%s: %v, want the header refused", name, err)
		}
		m.ID = model.NewID()
		if err := model.Check(&m, model.Limits{}); err == nil {
			t.Errorf("%s: a row with it passes", name)
		}
	}
	m := model.Message{Exchange: "ex", Headers: map[string]any{"x-first-death-queue": int64(1)}}
	if _, err := model.Normalize(m, time.Now(), model.Limits{}); err == nil {
		t.Error("x-first-death-queue as a number passes")
	}
	m.Headers = map[string]any{"x-death": death("", nil), "x-first-death-queue": "q", "x-last-death-reason": "expired"}
	if _, err := model.Normalize(m, time.Now(), model.Limits{}); err != nil {
		t.Errorf("a well-formed x-death: %v, want it to pass", err)
	}
}

// F4: what passes is dead-lettered by a real broker, from a classic and a quorum queue.
func TestF4_WellFormedDeathIsDeadLettered(t *testing.T) {
	t.Parallel()
	c := amqptest.Connect(t, amqptest.VHost(t))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Queue(amqptest.QueueSpec{Name: "dead"}))
	for _, kind := range []string{"classic", "quorum"} {
		args := amqp.Table{
			"x-message-ttl": int64(1), "x-dead-letter-exchange": "",
			"x-dead-letter-routing-key": "dead",
		}
		must(c.Queue(amqptest.QueueSpec{Name: kind, Type: kind, Args: args}))
		d := death("", nil)[0].(map[string]any)
		headers := amqp.Table{"x-death": []any{amqp.Table(d)}}
		must(c.Publish(t.Context(), "", kind, amqp.Publishing{MessageId: kind, Headers: headers}))
	}
	got, err := c.Collect(t.Context(), "dead", 2)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d dead-lettered, %v; want both", len(got), err)
	}
}
