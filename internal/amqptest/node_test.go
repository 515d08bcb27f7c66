package amqptest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// TestNode walks one node through its life, since a boot costs seconds.
func TestNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := amqptest.NewNode(t.Context(), dir, amqptest.Options{Config: []string{"channel_max = 16"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(n.Close(), n.Close()); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
			t.Errorf("left on disk: %v, %v", left, err)
		}
		if conn, err := net.Dial("tcp", n.Addr()); err == nil {
			conn.Close()
			t.Error("the node still listens after Close")
		}
	})
	for _, step := range []struct {
		name string
		run  func(*testing.T, *amqptest.Node)
	}{
		{"config", nodeConfig},
		{"users", nodeUsers},
		{"alarm", nodeAlarm},
		{"close all", nodeCloseAll},
		{"stop", nodeRestart(n.Stop)},
		{"kill", nodeRestart(func() error { return errors.Join(n.FlushQueues(), n.Kill()) })},
		{"pause", nodePause},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, n) }) {
			return
		}
	}
}

func dial(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) })
	return conn
}

func nodeConfig(t *testing.T, n *amqptest.Node) {
	conn := dial(t, n.URL())
	if conn.Config.ChannelMax != 16 {
		t.Errorf("channel_max = %d, want 16 from the node's own config", conn.Config.ChannelMax)
	}
	if _, err := conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Eval("1 + 1."); got != "2" || err != nil {
		t.Errorf("Eval = %q, %v", got, err)
	}
	if got, err := n.Connections(); got != 1 || err != nil {
		t.Errorf("Connections = %d, %v; want 1", got, err)
	}
	if got, err := n.Channels(); got != 1 || err != nil {
		t.Errorf("Channels = %d, %v; want 1", got, err)
	}
	if _, err := n.Ctl("no_such_command"); err == nil {
		t.Error("a wrong command is no error")
	}
}

func nodeUsers(t *testing.T, n *amqptest.Node) {
	if err := errors.Join(n.AddVHost("v1"), n.AddUser("app", "pw", "", "^ok$", "")); err != nil {
		t.Fatal(err)
	}
	dial(t, n.URLFor("guest", "guest", "v1"))
	admin := amqptest.Connect(t, n.URL())
	if err := errors.Join(admin.Exchange("ok", "fanout", nil), admin.Exchange("no", "fanout", nil)); err != nil {
		t.Fatal(err)
	}
	app := amqptest.Connect(t, n.URLFor("app", "pw", "/"))
	if err := app.Publish(t.Context(), "ok", "", amqp.Publishing{}); err != nil {
		t.Errorf("publish to ok = %v", err)
	}
	if err := app.Publish(t.Context(), "no", "", amqp.Publishing{}); err == nil {
		t.Error("publish without write permission was accepted")
	}
	if err := n.ClearPermissions("app", "/"); err != nil {
		t.Fatal(err)
	}
	if c, err := amqptest.Dial(n.URLFor("app", "pw", "/")); err == nil {
		t.Error("a user without permissions connected", c.Close())
	}
}

func nodeAlarm(t *testing.T, n *amqptest.Node) {
	conn := dial(t, n.URL())
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 4))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.MemoryAlarm(true); err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	if b := <-blocked; !b.Active {
		t.Errorf("first notification = %+v, want blocked", b)
	}
	if err := n.MemoryAlarm(false); err != nil {
		t.Fatal(err)
	}
	if b := <-blocked; b.Active {
		t.Errorf("second notification = %+v, want unblocked", b)
	}
}

func nodeCloseAll(t *testing.T, n *amqptest.Node) {
	closed := dial(t, n.URL()).NotifyClose(make(chan *amqp.Error, 1))
	if err := n.CloseAllConnections(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err == nil || err.Code != amqp.ConnectionForced {
		t.Errorf("close reason = %v, want 320", err)
	}
}

// nodeRestart ends the node and starts it again: same port, messages kept.
func nodeRestart(end func() error) func(*testing.T, *amqptest.Node) {
	return func(t *testing.T, n *amqptest.Node) {
		c := amqptest.Connect(t, n.URL())
		queue := "q-" + fmt.Sprint(time.Now().UnixNano())
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("kept")}
		err := errors.Join(c.Queue(amqptest.QueueSpec{Name: queue, Type: amqptest.Quorum}),
			c.Publish(t.Context(), "", queue, msg))
		if err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if conn, err := net.Dial("tcp", n.Addr()); err == nil {
			conn.Close()
			t.Fatal("the node still listens")
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := amqptest.Connect(t, n.URL()).Collect(t.Context(), queue, 1)
		if err != nil || string(got[0].Body) != "kept" {
			t.Errorf("after the restart: %d messages, %v; want the one kept", len(got), err)
		}
	}
}

func nodePause(t *testing.T, n *amqptest.Node) {
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	short := amqp.Config{Dial: amqp.DefaultDial(300 * time.Millisecond)}
	if conn, err := amqp.DialConfig(n.URL(), short); err == nil {
		conn.Close()
		t.Error("a paused node answered")
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	dial(t, n.URL())
}

func TestStartNodeSideBySide(t *testing.T) {
	t.Parallel()
	first, second := make(chan *amqptest.Node, 1), amqptest.StartNode(t, amqptest.Options{})
	t.Run("inner", func(t *testing.T) {
		n := amqptest.StartNode(t, amqptest.Options{Config: []string{"max_message_size = 1024"}})
		if n.Port() == second.Port() {
			t.Errorf("two nodes on port %d", n.Port())
		}
		c := amqptest.Connect(t, n.URL())
		if err := c.Publish(t.Context(), "", "q", amqp.Publishing{Body: make([]byte, 1025)}); err == nil {
			t.Error("a body above max_message_size was accepted")
		}
		first <- n
	})
	if conn, err := net.Dial("tcp", (<-first).Addr()); err == nil {
		conn.Close()
		t.Error("the node outlived its test")
	}
	dial(t, second.URL())
}

func TestStartNodeReportsABadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, err := amqptest.NewNode(t.Context(), dir, amqptest.Options{Config: []string{"no_such_key = 1"}})
	if err == nil {
		t.Fatal("a wrong config line is no error", n.Close())
	}
	if !strings.Contains(err.Error(), "no_such_key") {
		t.Errorf("error = %v, want the broker's own words", err)
	}
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("left on disk: %v, %v", left, err)
	}
}
