package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/logtest"
)

// TestS6_AMissingQueueIsAFewLines: 200 messages to a missing queue, tried five times each, are told
// in a few lines whose counts are all sends, and each is found by its id in the history.
func TestS6_AMissingQueueIsAFewLines(t *testing.T) {
	t.Parallel()
	const rows, attempts = 200, 5
	store, broker := migrated(t), amqptest.VHost(t)
	in := strings.NewReader(strings.Repeat("{\"routing_key\":\"q\",\"body\":\"x\"}\n", rows))
	var out, errs logtest.Buffer
	if code := run(t.Context(), []string{
		"publish", "--jsonl", "-", "--amqp", broker, "--store", store, "--service", "shop", "--base-delay", "10ms",
	}, in, &out, &errs); code != exitKept {
		t.Fatalf("publish: exit %d: %s", code, errs.String())
	}
	p := start(t, nil, "compensator", "--store", store, "--amqp", broker, "--http", "", "--interval", "20ms",
		"--base-delay", "10ms", "--multiplier", "1", "--max-attempts", strconv.Itoa(attempts), "--max-delay", "10ms")
	waitFor(t, "all attempts are used", func() bool {
		_, list, _ := runIn(t, "messages", "list", "--json", "--limit", "1000", "--store", store)
		used := 0
		for _, m := range regexp.MustCompile(`"attempts":(\d+)`).FindAllStringSubmatch(list, -1) {
			if n, err := strconv.Atoi(m[1]); err == nil && n >= attempts {
				used++
			}
		}
		return used == rows
	})
	p.stop(t)
	told, lines := 0, 0
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, " level=WARN ") || !strings.Contains(line, " attempts=") {
			continue
		}
		lines++
		n := 1
		if m := regexp.MustCompile(` count=(\d+)`).FindStringSubmatch(line); m != nil {
			n, _ = strconv.Atoi(m[1])
		}
		told += n
	}
	if sends := rows * (attempts - 1); told < sends || lines > 10 { // the first of them was the publisher's
		t.Errorf("%d lines that tell of %d failed sends, want at most 10 lines for %d:\n%s", lines, told, sends,
			p.stderr.String())
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(firstRow(t, store))[1]
	_, history, _ := runIn(t, "messages", "history", id, "--store", store)
	if n := strings.Count(history, " 312 "); n < attempts {
		t.Errorf("the history has %d failed sends, want %d:\n%s", n, attempts, history)
	}
}

func firstRow(t *testing.T, store string) string {
	t.Helper()
	_, out, _ := runIn(t, "messages", "list", "--json", "--limit", "1", "--store", store)
	return out
}
