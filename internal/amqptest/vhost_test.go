package amqptest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestVHostIsFreshAndDeletedAtCleanup(t *testing.T) {
	t.Parallel()
	var first string
	t.Run("inner", func(t *testing.T) {
		first = amqptest.VHost(t)
		c := amqptest.Connect(t, first)
		if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
			t.Fatal(err)
		}
		other := amqptest.Connect(t, amqptest.VHost(t))
		if _, err := other.Depth("q"); err == nil {
			t.Error("a queue of one virtual host shows in another")
		}
	})
	if c, err := amqptest.Dial(first); err == nil {
		t.Error("the virtual host outlived its test", c.Close())
	}
}

func TestVHostErrorNamesTheNextStepAndNoPassword(t *testing.T) {
	t.Setenv("PATH", "") // No rabbitmqctl either.
	t.Setenv(amqptest.EnvURL, "amqp://someone:s3cret@127.0.0.2:1/")
	_, _, err := amqptest.NewVHost(t.Context())
	if err == nil {
		t.Fatal("NewVHost without a broker = nil")
	}
	for _, want := range []string{"scripts/services.sh", "127.0.0.2:1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("NewVHost = %v, want %s in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func fill(t *testing.T, c *amqptest.Client, queue string, n int) {
	t.Helper()
	for i := range n {
		if err := c.Publish(t.Context(), "x", "k", amqp.Publishing{Body: fmt.Append(nil, i)}); err != nil {
			t.Fatalf("fill %s: %v", queue, err)
		}
	}
}

func TestClientTopologyAndCollect(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{amqptest.Classic, amqptest.Quorum} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := amqptest.Connect(t, amqptest.VHost(t))
			err := errors.Join(
				c.Exchange("x", "direct", nil),
				c.Queue(amqptest.QueueSpec{Name: "q", Type: kind}),
				c.Bind("q", "x", "k"))
			if err != nil {
				t.Fatal(err)
			}
			fill(t, c, "q", 7)
			got, err := c.Collect(t.Context(), "q", 5)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range got {
				if string(d.Body) != fmt.Sprint(i) {
					t.Errorf("message %d = %q", i, d.Body)
				}
			}
			rest, err := c.Collect(t.Context(), "q", 2)
			if err != nil || len(rest) != 2 {
				t.Fatalf("Collect of the rest = %d, %v; want 2", len(rest), err)
			}
			short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if got, err := c.Collect(short, "q", 1); len(got) != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Collect of an empty queue = %d, %v; want deadline exceeded", len(got), err)
			}
		})
	}
}

func TestClientDrainPurgeDepthDelete(t *testing.T) {
	t.Parallel()
	c := amqptest.Connect(t, amqptest.VHost(t))
	err := errors.Join(
		c.Exchange("x", "topic", nil), c.InternalExchange("in", "fanout"),
		c.Queue(amqptest.QueueSpec{Name: "q", Args: amqp.Table{"x-max-length": int32(100)}}), c.Bind("q", "x", "k"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, "q", 3)
	if n, err := c.Depth("q"); n != 3 || err != nil {
		t.Errorf("Depth = %d, %v; want 3", n, err)
	}
	if got, err := c.Drain("q"); len(got) != 3 || err != nil {
		t.Errorf("Drain = %d, %v; want 3", len(got), err)
	}
	fill(t, c, "q", 2)
	if n, err := c.Purge("q"); n != 2 || err != nil {
		t.Errorf("Purge = %d, %v; want 2", n, err)
	}
	if err := c.Unbind("q", "x", "k"); err != nil {
		t.Error(err)
	}
	fill(t, c, "q", 1)
	if n, err := c.Depth("q"); n != 0 || err != nil {
		t.Errorf("Depth after Unbind = %d, %v; want 0", n, err)
	}
	if err := errors.Join(c.DeleteQueue("q"), c.DeleteExchange("x")); err != nil {
		t.Error(err)
	}
	var refused *amqp.Error
	if err := c.Publish(t.Context(), "in", "k", amqp.Publishing{}); err == nil {
		t.Errorf("publish to an internal exchange = %v, want an error", err)
	}
	if _, err := c.Depth("q"); !errors.As(err, &refused) || refused.Code != amqp.NotFound {
		t.Errorf("Depth of a deleted queue = %v, want 404", err)
	}
	// The client goes on after a channel exception.
	if err := c.Exchange("y", "fanout", nil); err != nil {
		t.Error(err)
	}
}
