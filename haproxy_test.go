package transmsg_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/mysql"
)

// TestBehindHAProxy: the time-outs of an HAProxy, 50 s in Debian's configuration, end the connections
// of a quiet service's pool, and the next Publish stores and sends all the same. The connection to the
// broker, with its heartbeats each 5 s, outlives them. HAProxy itself may be started anew.
func TestBehindHAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const quiet = time.Second // in the place of 50 s: nothing crosses an idle pool's connection in either
	toStore := dbtest.StartHAProxy(t, w.storeAddr, quiet)
	toBroker := dbtest.StartHAProxy(t, w.brokerAddr, 8*time.Second)
	log := &connects{}
	ob, err := transmsg.Open(t.Context(), transmsg.Config{
		Service: "orders", Logger: slog.New(slog.NewTextHandler(log, nil)),
		Store: mysql.DSN(strings.Replace(w.dsn, w.storeAddr, toStore.Addr(), 1)),
		AMQP:  strings.Replace(w.amqp, w.brokerAddr, toBroker.Addr(), 1),
	})
	must(t, err)
	t.Cleanup(func() { _ = ob.Close(within(t, 10*time.Second)) })
	must(t, ob.WaitReady(within(t, time.Minute)))
	ids := w.publish(t, ob, 5)

	schema := w.dsn[strings.LastIndex(w.dsn, "/")+1:]
	w.truth.Pool().SetMaxIdleConns(0) // else its connections are counted
	begin := time.Now()
	eventually(t, "HAProxy has closed the pool's connections, and has had time to close the broker's", func() bool {
		var n int
		must(t, w.truth.Pool().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist "+
			"WHERE db = ? AND id <> CONNECTION_ID()", schema).Scan(&n))
		return n == 0 && time.Since(begin) > 17*time.Second
	})
	ids = append(ids, w.publish(t, ob, 5)...)
	w.delivered(t, ids)
	if n := log.count(); n != 1 {
		t.Errorf("%d connections to the broker over a quiet time, want 1", n)
	}

	for _, m := range []*dbtest.Middle{toStore, toBroker} {
		must(t, m.Kill(), m.Start(t.Context()))
	}
	eventually(t, "the sender is connected again", func() bool { return log.count() == 2 })
	must(t, ob.WaitReady(within(t, time.Minute)))
	w.delivered(t, w.publish(t, ob, 5))
}

// connects counts the log's lines about a connection to the broker.
type connects struct {
	mu sync.Mutex
	n  int
}

func (c *connects) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += bytes.Count(b, []byte("connected to the broker"))
	return len(b), nil
}

func (c *connects) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
