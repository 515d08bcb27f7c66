package topology_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestApplyCanBeRunTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		out := w.run(0, "apply")
		if want := "ok: 10 exchanges, 7 queues and 6 bindings of virtual host " + w.vhost + "\n"; out != want {
			t.Errorf("apply says %q, want %q", out, want)
		}
	}
	w.run(0, "check")
}

func TestApplyWithTheNativeTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	native, err := filepath.Abs("testdata/rabbitmqadmin-v2")
	if err != nil {
		t.Fatal(err)
	}
	config := w.write(filepath.Join(t.TempDir(), "admin.toml"), "[it]\nusername = \"guest\"\npassword = \"guest\"\n")
	w.env = append(w.env, "RABBITMQADMIN="+native)
	api := fmt.Sprintf("http://127.0.0.1:%d", broker.port)
	w.options = []string{"--config", config, "--node", "it", "--base-uri", api}
	w.run(0, "apply")
	if err := w.admin().DeleteQueue("orders.all.retry.100ms"); err != nil {
		t.Fatal(err)
	}
	w.names("queue orders.all.retry.100ms is missing  [ladder-missing]")
	w.run(0, "apply")
}

// No process gets a password as an argument: everybody on the host can read those. Nothing stays behind.
func TestPasswordsAreNoArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := filepath.Join(t.TempDir(), "log")
	recorder := w.write(filepath.Join(t.TempDir(), "rabbitmqadmin"),
		"#!/bin/sh\nprintf '%s ' \"$@\" >>'"+log+"'\nenv >>'"+log+"'\nexec rabbitmqadmin \"$@\"\n")
	if err := os.Chmod(recorder, 0o700); err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	w.env = append(w.env, "RABBITMQADMIN="+recorder, "TMPDIR="+temporary)
	w.run(0, "apply")
	seen, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(seen), "import ") || strings.Contains(string(seen), "canary") {
		t.Errorf("rabbitmqadmin was called with:\n%s", seen)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

// What apply can mend it mends; what exists otherwise it names and leaves alone.
func TestWhatIsSpoiledIsNamedAndMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(0, "apply")
	admin := w.admin()
	user := "p-" + w.tag
	for _, tc := range []struct {
		name  string
		spoil func() error
		texts []string
		mend  func() error // Nil when apply mends it.
	}{
		{
			name:  "exchange missing",
			spoil: func() error { return admin.DeleteExchange("orders") },
			texts: []string{"exchange orders is missing", "binding orders -> orders.all by # is missing"},
		},
		{
			name: "exchange of another type",
			spoil: func() error {
				if err := admin.DeleteExchange("orders"); err != nil {
					return err
				}
				return admin.Exchange("orders", "fanout", nil)
			},
			texts: []string{
				`exchange orders: type is "fanout", want "topic"`, "binding orders -> orders.all by # is missing",
			},
			mend: func() error { return admin.DeleteExchange("orders") },
		},
		{
			name:  "binding missing",
			spoil: func() error { return admin.Unbind("orders.all", "orders", "#") },
			texts: []string{"binding orders -> orders.all by # is missing"},
		},
		{
			name:  "more rights",
			spoil: func() error { return broker.node.SetPermissions(user, w.vhost, ".*", ".*", ".*") },
			texts: []string{
				"permission " + user + `: configure is ".*", want "^$"`,
				"permission " + user + `: write is ".*", want "^(orders|shipping)$"`,
				"permission " + user + `: read is ".*", want "^$"`,
			},
		},
		{
			name:  "user with a tag",
			spoil: func() error { _, err := broker.node.Ctl("set_user_tags", user, "administrator"); return err },
			texts: []string{"user " + user + ": tags are [administrator], want none"},
		},
		{
			name:  "another password",
			spoil: func() error { _, err := broker.node.Ctl("change_password", user, "x"); return err },
			texts: []string{"user " + user + ": the password is another than the one given"},
		},
		{
			name: "policy gone",
			spoil: func() error {
				_, err := broker.node.Ctl("clear_policy", "-p", w.vhost, "transmsg-work")
				return err
			},
			texts: withoutPolicy(t, "shipping.all.0", "shipping.all.1", "shipping.all.2", "orders.all"),
		},
	} {
		if err := tc.spoil(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		t.Log(tc.name)
		w.names(tc.texts...)
		if tc.mend != nil {
			w.run(1, "apply") // it must not change what exists
			if err := tc.mend(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		w.run(0, "apply")
	}
}

// withoutPolicy is what is said about queues without their policy. From RabbitMQ 4.0 on they have a limit by default.
func withoutPolicy(t *testing.T, queues ...string) (texts []string) {
	t.Helper()
	limited, err := broker.node.AtLeast(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range queues {
		texts = append(texts, "queue "+q+`: dead-letter-exchange is none, want "dead-letters"`,
			"queue "+q+`: dead-letter-strategy is none, want "at-least-once"`,
			"queue "+q+`: overflow is none, want "reject-publish"`)
		if limited {
			texts = append(texts, "queue "+q+": has no delivery-limit", "queue "+q+": delivery-limit 20 without")
		}
	}
	return texts
}

// C71: a queue that exists with other arguments is named with both values, and is left alone with what it holds.
func TestC71_QueueWithOtherArgumentsIsNamedAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(0, "apply")
	admin := w.admin()
	if err := admin.DeleteQueue("orders.all"); err != nil {
		t.Fatal(err)
	}
	spec := amqptest.QueueSpec{Name: "orders.all", Type: amqptest.Quorum, Args: amqp.Table{"x-delivery-limit": 20}}
	if err := admin.Queue(spec); err != nil {
		t.Fatal(err)
	}
	if err := admin.Bind("orders.all", "orders", "#"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Publish(t.Context(), "orders", "order.paid", amqp.Publishing{Body: []byte("kept")}); err != nil {
		t.Fatal(err)
	}
	out := w.run(1, "apply")
	if !strings.Contains(out, "queue orders.all: delivery-limit is 20, want at least 1000 (by an argument") {
		t.Errorf("apply says:\n%s", out)
	}
	if got, err := admin.Collect(t.Context(), "orders.all", 1); err != nil || string(got[0].Body) != "kept" {
		t.Errorf("what the queue held: %v, %v", got, err)
	}
}
