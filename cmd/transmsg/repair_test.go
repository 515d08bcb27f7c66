package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
)

// Two operators replay one group of 1,000 DEAD messages at the same time: each message is
// replayed by one of them, sent once, and a third call finds nothing to do.
func TestC68_TwoReplaysSendEachMessageOnce(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(context.Context) (string, func() error, error){
		"mysql": dbtest.NewMySQL, "postgres": dbtest.NewPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, drop, err := create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := drop(); err != nil {
					t.Error(err)
				}
			})
			if code, _, errs := runIn(t, "migrate", "up", "--store", store); code != 0 {
				t.Fatalf("migrate: exit %d: %s", code, errs)
			}
			twoReplays(t, store)
		})
	}
}

func twoReplays(t *testing.T, store string) {
	const n = 1000
	broker := amqptest.VHost(t)
	publishDead(t, store, broker, n)
	c := amqptest.Connect(t, broker)
	if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	replay := []string{"messages", "replay", "--routing-key", "q", "--rate", "0", "--yes", "--json", "--store", store}
	var replayed [2]int
	var both sync.WaitGroup
	for i := range replayed {
		both.Go(func() { replayed[i] = acted(t, replay...) })
	}
	both.Wait()
	if sum := replayed[0] + replayed[1]; sum != n {
		t.Errorf("%d and %d messages replayed, want %d in all", replayed[0], replayed[1], n)
	}
	if again := acted(t, replay...); again != 0 {
		t.Errorf("a third call replayed %d messages, want 0", again)
	}
	daemon := start(t, nil, "compensator", "--store", store, "--amqp", broker, "--http", "", "--interval", "50ms",
		"--log-level", "warn")
	waitFor(t, "all rows settled", func() bool { return listed(t, store) == 0 })
	if _, code := daemon.stop(t); code != 0 {
		t.Fatalf("compensator: exit %d:\n%s", code, daemon.stderr.String())
	}
	if got := depth(t, c); got != n {
		t.Errorf("%d messages in the queue, want %d", got, n)
	}
	if got := len(ids(t, c)); got != n {
		t.Errorf("%d distinct messages, want %d", got, n)
	}
}

// publishDead stores n messages that no queue takes, with one attempt each.
func publishDead(t *testing.T, store, broker string, n int) {
	t.Helper()
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "{\"routing_key\":\"q\",\"body\":\"%d\"}\n", i)
	}
	var out, errs logtest.Buffer
	code := run(t.Context(), []string{
		"publish", "--jsonl", "-", "--amqp", broker, "--store", store, "--service", "shop", "--max-attempts", "1",
		"--min-dead-age", "0",
	}, strings.NewReader(in.String()), &out, &errs)
	if rows := listed(t, store); code != exitKept || rows != n {
		t.Fatalf("publish: exit %d, %d rows, want %d and %d: %s", code, rows, exitKept, n, errs.String())
	}
}

// acted runs a verb with --yes --json and returns how many messages it changed.
func acted(t *testing.T, args ...string) int {
	t.Helper()
	code, out, errs := runIn(t, args...)
	var result jsonAct
	if err := json.Unmarshal([]byte(out), &result); code != 0 || err != nil || !result.Applied {
		t.Errorf("%s: exit %d: %q: %v: %s", strings.Join(args[:2], " "), code, out, err, errs)
	}
	return result.Messages
}

// The command that a preview prints repeats the flags without the password in them.
func TestC28_PreviewHidesThePassword(t *testing.T) {
	t.Parallel()
	dsn, drop, err := dbtest.NewPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), canary+"/&%") // the server trusts any
	store := u.String()
	if code, _, errs := runIn(t, "migrate", "up", "--store", store); code != 0 {
		t.Fatalf("migrate: exit %d: %s", code, errs)
	}
	publishDead(t, store, amqptest.VHost(t), 1)
	for _, args := range [][]string{
		{"messages", "replay", "--all"}, {"messages", "discard", "--all", "--json"},
	} {
		code, out, errs := runIn(t, append(args, "--store", store)...)
		if code != 0 || !strings.Contains(out, "xxxxx") || strings.Contains(out+errs, canary) {
			t.Errorf("%v: exit %d, want a command with xxxxx: %s%s", args, code, out, errs)
		}
	}
}
