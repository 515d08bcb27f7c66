package topology_test

import (
	"net/http"
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
	first := w.must("apply")
	if n := strings.Count(first, "\ndeclared"); n != 15 {
		t.Errorf("declared %d objects after the virtual host, want 15:\n%s", n, first)
	}
	if second := w.must("apply"); strings.Contains(second, "declared") {
		t.Errorf("the second run declared again:\n%s", second)
	}
	delete(w.env, "TOPOLOGY_PUBLISHER_PASSWORD") // Checking needs no passwords.
	w.must("check")
}

// A name for each tool: the Python one of the plugin, fetched, and the native one.
func TestApplyWithEachTool(t *testing.T) {
	t.Parallel()
	tools := map[string]func(*testing.T, *world){
		"fetched": func(t *testing.T, w *world) {
			// A path on which python3 is, and rabbitmqadmin is not.
			w.env["PATH"] = folderWith(t, "python3", "env")
		},
		"v2": func(t *testing.T, w *world) {
			path, err := filepath.Abs("testdata/rabbitmqadmin-v2")
			if err != nil {
				t.Fatal(err)
			}
			w.env["TOPOLOGY_RABBITMQADMIN"] = path
		},
	}
	for name, prepare := range tools {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prepare(t, w)
			if name == "fetched" && !servesTool(t) {
				r := w.run("apply")
				const told = "no longer brings the Python tool (since 4.3); install rabbitmqadmin v2"
				if r.code != 1 || !strings.Contains(r.errOut, told) {
					t.Errorf("apply = %d, want a refusal that names the other tool\n%s", r.code, r.errOut)
				}
				return
			}
			w.must("apply")
			w.must("apply")
			if err := w.admin().DeleteQueue("payments.all"); err != nil {
				t.Fatal(err)
			}
			w.refuses("check", "queue payments.all is missing",
				"binding payments -> payments.all by # is missing")
			w.must("apply")
		})
	}
}

// servesTool says whether the broker's management plugin brings the Python tool: RabbitMQ before 4.3.
func servesTool(t *testing.T) bool {
	t.Helper()
	answer, err := http.Get(broker.api + "/cli/rabbitmqadmin")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// folderWith makes a folder with links to the named programs.
func folderWith(t *testing.T, programs ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, program := range programs {
		path := lookPath(t, program)
		if err := os.Symlink(path, filepath.Join(folder, program)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// No process gets a password as an argument: everybody on the host can read those.
func TestPasswordsAreNoArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const admin = "canary-admin %"
	w.ctl("add_user", "administrator", admin)
	w.ctl("set_user_tags", "administrator", "administrator")
	w.env["TOPOLOGY_ADMIN_USER"], w.env["TOPOLOGY_ADMIN_PASSWORD"] = "administrator", admin
	log := filepath.Join(t.TempDir(), "log")
	recorder := filepath.Join(t.TempDir(), "rabbitmqadmin")
	script := "#!/bin/sh\nprintf '%s ' \"$@\" >>'" + log + "'\nenv >>'" + log + "'\nexec '" +
		lookPath(t, "rabbitmqadmin") + "' \"$@\"\n"
	if err := os.WriteFile(recorder, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w.env["TOPOLOGY_RABBITMQADMIN"] = recorder
	w.must("apply")
	seen, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(seen), "declare queue") {
		t.Errorf("the recorder saw no declare:\n%s", seen)
	}
	if strings.Contains(string(seen), "canary") {
		t.Errorf("a password is an argument or in the environment of rabbitmqadmin:\n%s", seen)
	}
	w.env["TOPOLOGY_ADMIN_PASSWORD"] = "canary-wrong"
	w.refuses("check") // Only the tool's own word; the password is not in it.
	left, err := os.ReadDir(w.env["TMPDIR"])
	if err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestDifferencesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	admin := w.admin()
	user := w.env["TOPOLOGY_PUBLISHER_USER"]
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
				"exchange orders: type is 'fanout', want 'topic'",
				"binding orders -> orders.all by # is missing",
			},
			mend: func() error { return admin.DeleteExchange("orders") },
		},
		{
			name:  "binding missing",
			spoil: func() error { return admin.Unbind("payments.all", "payments", "#") },
			texts: []string{"binding payments -> payments.all by # is missing"},
		},
		{
			name: "queue without dead letters",
			spoil: func() error {
				if err := admin.DeleteQueue("orders.all"); err != nil {
					return err
				}
				if err := admin.Queue(amqptest.QueueSpec{Name: "orders.all"}); err != nil {
					return err
				}
				return admin.Bind("orders.all", "orders", "#")
			},
			texts: []string{
				"queue orders.all: argument x-queue-type is 'classic', want 'quorum'",
				"queue orders.all: argument x-dead-letter-exchange is missing, want 'dead-letters'",
				"queue orders.all: argument x-dead-letter-strategy is missing, want 'at-least-once'",
				"queue orders.all: argument x-delivery-limit is missing, want 20",
				"queue orders.all: argument x-overflow is missing, want 'reject-publish'",
			},
			mend: func() error { return admin.DeleteQueue("orders.all") },
		},
		{
			name:  "more rights",
			spoil: func() error { return broker.node.SetPermissions(user, w.vhost, ".*", ".*", ".*") },
			texts: []string{
				"permission " + user + ": configure is '.*', want '^$'",
				"permission " + user + ": write is '.*', want '^(orders|payments)$'",
				"permission " + user + ": read is '.*', want '^$'",
			},
		},
		{
			name:  "user with a tag",
			spoil: func() error { _, err := broker.node.Ctl("set_user_tags", user, "administrator"); return err },
			texts: []string{"user " + user + ": tags are ['administrator'], want none"},
		},
		{
			name:  "another password",
			spoil: func() error { _, err := broker.node.Ctl("change_password", user, "x"); return err },
			texts: []string{"user " + user + ": the password is another than the one given"},
		},
		{
			name: "topic permission",
			spoil: func() error {
				_, err := broker.node.Ctl("set_topic_permissions", "-p", w.vhost, user, "orders", "^a", "^a")
				return err
			},
			texts: []string{"user " + user + ": a topic permission on orders can forbid single routing keys"},
			mend: func() error {
				_, err := broker.node.Ctl("clear_topic_permissions", "-p", w.vhost, user)
				return err
			},
		},
	} {
		if err := tc.spoil(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		w.refuses("check", tc.texts...)
		if tc.mend != nil {
			if r := w.run("apply"); r.code != 1 {
				t.Errorf("%s: apply = %d, want 1: it must not change what exists\n%s", tc.name, r.code, r.errOut)
			}
			if err := tc.mend(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
		}
		w.must("apply")
	}
}

func TestC10_LimitsThatDropAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	admin := w.admin()
	// Queues that somebody else binds to our exchanges are targets too.
	for name, args := range map[string]amqp.Table{
		"others.dropping": {"x-max-length": 2},
		"others.safe":     {"x-max-length": 2, "x-overflow": "reject-publish"},
	} {
		if err := admin.Queue(amqptest.QueueSpec{Name: name, Args: args}); err != nil {
			t.Fatal(err)
		}
		if err := admin.Bind(name, "orders", "other.#"); err != nil {
			t.Fatal(err)
		}
	}
	w.refuses("check", "queue others.dropping: max-length 2 with overflow drop-head drops confirmed messages")
	if err := admin.DeleteQueue("others.dropping"); err != nil {
		t.Fatal(err)
	}
	w.must("check")
	w.ctl("set_policy", "-p", w.vhost, "limit", "^orders", `{"max-length-bytes":9,"overflow":"reject-publish-dlx"}`)
	w.refuses("apply",
		"queue orders.all: max-length-bytes 9 with overflow reject-publish-dlx drops confirmed messages",
		"queue orders.all: overflow reject-publish-dlx turns at-least-once dead-lettering off")
	w.ctl("set_policy", "-p", w.vhost, "limit", "^orders", `{"max-length-bytes":9}`)
	w.must("check") // The queue's own reject-publish holds.
	w.ctl("set_policy", "-p", w.vhost, "--apply-to", "exchanges", "limit", "^orders$", `{"alternate-exchange":"x"}`)
	w.refuses("check", "exchange orders: an alternate exchange takes what no queue wants")
}

func TestC55_LimitedDeadLetterQueueIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ctl("add_vhost", w.vhost)
	w.ctl("set_permissions", "-p", w.vhost, "guest", ".*", ".*", ".*")
	admin := w.admin()
	spec := amqptest.QueueSpec{
		Name: "dead-letters", Type: amqptest.Quorum,
		Args: amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"},
	}
	limited, err := broker.node.AtLeast(4, 0)
	if err != nil {
		t.Fatal(err)
	}
	if limited { // 20 by default, and the script wants none
		spec.Args["x-delivery-limit"] = -1
	}
	if err := admin.Queue(spec); err != nil {
		t.Fatal(err)
	}
	w.refuses("apply",
		"queue dead-letters: rabbitmqadmin: *** inequivalent arg",
		"queue dead-letters: argument x-max-length is 1, want none",
		"queue dead-letters: argument x-overflow is 'reject-publish', want none",
		"dead-letter queue dead-letters: max-length 1 loses dead letters")
	if err := admin.DeleteQueue("dead-letters"); err != nil {
		t.Fatal(err)
	}
	w.must("apply")
	w.ctl("set_operator_policy", "-p", w.vhost, "--apply-to", "queues", "limit", ".*",
		`{"max-length":5,"message-ttl":1000}`)
	w.refuses("check", "dead-letter queue dead-letters: max-length 5 loses dead letters",
		"dead-letter queue dead-letters: message-ttl 1000 loses dead letters")
}
