package main

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/logtest"
)

// TestS4_RetryAfterTheRepair: messages to a missing queue wait for an hour. Once the queue is
// there the command that the dry run prints makes them due, and the table is empty but for the
// message whose time has not come.
func TestS4_RetryAfterTheRepair(t *testing.T) {
	t.Parallel()
	store, broker := migrated(t), amqptest.VHost(t)
	const n = 5
	in := strings.Repeat("{\"routing_key\":\"q\",\"body\":\"x\"}\n", n) +
		"{\"routing_key\":\"q\",\"body\":\"later\",\"not_before\":\"2099-01-01T00:00:00Z\"}\n"
	var out, errs logtest.Buffer
	code := run(t.Context(), []string{
		"publish", "--jsonl", "-", "--amqp", broker, "--store", store, "--service", "shop", "--base-delay", "1h",
		"--max-delay", "1h",
	}, strings.NewReader(in), &out, &errs)
	if rows := listed(t, store); code != exitKept || rows != n+1 {
		t.Fatalf("publish: exit %d, %d rows, want %d and %d: %s", code, rows, exitKept, n+1, errs.String())
	}
	c := amqptest.Connect(t, broker)
	if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	code, preview, says := runIn(t, "messages", "retry", "--service", "shop", "--code", "312", "--store", store)
	if code != 0 || !strings.Contains(preview, "would retry 5 messages") {
		t.Fatalf("dry run: exit %d: %s%s", code, preview, says)
	}
	_, command, _ := strings.Cut(preview, "To retry:\n  transmsg ")
	if again := acted(t, append(strings.Fields(command), "--json")...); again != n {
		t.Errorf("the printed command retried %d messages, want %d", again, n)
	}
	daemon := start(t, nil, "compensator", "--store", store, "--amqp", broker, "--http", "", "--interval", "50ms")
	waitFor(t, "all but one settled", func() bool { return listed(t, store) == 1 })
	daemon.stop(t)
	if got := depth(t, c); got != n {
		t.Errorf("%d messages in the queue, want %d", got, n)
	}
	if again := acted(t, "messages", "retry", "--all", "--yes", "--json", "--store", store); again != 0 {
		t.Errorf("%d messages retried, want the one before its time to stay", again)
	}
	if again := acted(t, "messages", "retry", "--all", "--early", "--yes", "--json", "--store", store); again != 1 {
		t.Errorf("%d messages retried early, want 1", again)
	}
}
