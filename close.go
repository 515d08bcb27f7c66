package transmsg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// compensating is the compensator of this process.
type compensating struct {
	sender *confirms.Sender
	stop   context.CancelFunc // claim nothing more; nil before start
	cut    context.CancelFunc // wait for nothing more
	done   chan struct{}      // closed when the run has ended
	err    error              // of the run, set before done
}

func (c *compensating) start(run func(ctx, hard context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	hard, cut := context.WithCancel(context.Background())
	c.stop, c.cut = stop, cut
	go func() {
		defer close(c.done)
		c.err = run(ctx, hard)
	}()
}

// close ends the run, draining until ctx ends, and then its connection.
func (c *compensating) close(ctx context.Context) error {
	var err error
	if c.stop != nil {
		c.stop()
		defer context.AfterFunc(ctx, c.cut)()
		<-c.done
		c.cut()
		err = c.err
	}
	return closeSender(ctx, c.sender, err)
}

// closeSender ends a connection after its user, whose error counts what was left already.
func closeSender(ctx context.Context, s *confirms.Sender, user error) error {
	err := s.Close(ctx)
	if errors.Is(user, model.ErrNotDrained) && errors.Is(err, model.ErrNotDrained) {
		return user
	}
	return errors.Join(user, err)
}

// Close refuses new calls, waits until ctx ends for the confirms of what is on its way and for
// the writes that follow, and then closes connections and pool, in the order in which the parts
// stand on each other; a database that was given as the service's own stays open. Nil means
// drained. Otherwise the error is [model.ErrNotDrained] and says how many messages stay READY:
// none is lost, a compensator sends them when their leases end. Close with a ctx that has a
// deadline. A second Close waits for the first and returns its error.
func (o *Outbox) Close(ctx context.Context) error {
	if o == nil || o.closed == nil {
		return errors.New("transmsg: close: the Outbox is nil or zero: make it with transmsg.Open")
	}
	o.closing.Do(func() {
		defer close(o.closed)
		o.err = o.close(ctx)
	})
	<-o.closed
	return o.err
}

func (o *Outbox) close(ctx context.Context) error {
	var publishing, compensated error
	var draining sync.WaitGroup
	// Both at once: they share ctx, and neither waits for the other.
	draining.Go(func() { publishing = o.closePublisher(ctx) })
	if o.compensating != nil {
		draining.Go(func() { compensated = o.compensating.close(ctx) })
	}
	draining.Wait()
	err := errors.Join(publishing, compensated)
	if o.store != nil {
		err = errors.Join(err, o.store.Close())
	}
	if err != nil {
		err = fmt.Errorf("transmsg: close: %w", err)
	}
	return err
}

// closePublisher drains the publisher before it ends the connection that it sends on.
func (o *Outbox) closePublisher(ctx context.Context) error {
	var err error
	if o.pub != nil {
		err = o.pub.Close(ctx)
	}
	if o.sender == nil {
		return err
	}
	return closeSender(ctx, o.sender, err)
}
