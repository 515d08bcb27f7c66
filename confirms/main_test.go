package confirms_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// private is the package's own broker, started by the first test that needs it. The
// tests that use it change it and run one after the other.
var private struct {
	once sync.Once
	node *amqptest.Node
	err  error
}

func privateNode(t testing.TB) *amqptest.Node {
	t.Helper()
	private.once.Do(func() {
		private.node, private.err = amqptest.NewNode(context.Background(), "", amqptest.Options{
			Config: []string{"max_message_size = 1048576", "channel_max = 16"},
		})
	})
	if private.err != nil {
		t.Fatal(private.err)
	}
	return private.node
}

func TestMain(m *testing.M) {
	code := m.Run()
	if private.node != nil {
		if err := private.node.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
