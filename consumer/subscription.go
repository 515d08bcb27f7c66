package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errGiveBack is why a delivery does not wait any longer: it goes back to its queue.
var errGiveBack = errors.New("given back")

// subscription is one channel with one consumer on it. Its deliveries are settled over it, and only while it is alive.
type subscription struct {
	q          *queue
	se         *session
	ch         *amqp.Channel
	tag        string
	alone      bool // prefetch 1
	deliveries <-chan amqp.Delivery
	cancels    chan string

	// What its deliveries wait on. calls ends with the channel (ErrLost) or when handlers must end (ErrStopping), waits
	// also when whatever waits goes back, and unbegun when what no handler has begun goes back (both errGiveBack).
	calls, waits, unbegun context.Context //nolint:containedctx // the life of a channel, not of a call
	end, endWaits, shed   context.CancelCauseFunc
	dead                  chan struct{} // closed when the channel has ended

	waiter atomic.Bool // a delivery waits after a call

	// What waits for the end of the consumer; the queue's loop's, then retire's. first is what nobody had before, over
	// a channel with a prefetch of 1; the others are suspects that came among others.
	first *delivery
	kept  *delivery   // handled here when the others have ended
	aside []*delivery // not handled here

	mu      sync.Mutex
	alive   bool
	settled time.Time     // the last ack or return
	open    int           // deliveries without an end
	idle    chan struct{} // closed when open is 0; made by whoever waits
}

// subscribe opens a channel and consumes. The error is the broker's, or that the connection ended.
func (se *session) subscribe(q *queue, alone bool) (*subscription, error) {
	defer se.guard("subscribe to " + q.cfg.Name)()
	ch, err := se.dialled.Conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open channel: %w", err)
	}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	s := &subscription{
		q: q, se: se, ch: ch, tag: fmt.Sprintf("%s-%d", se.c.cfg.Name, q.tags.Add(1)), alone: alone,
		cancels: ch.NotifyCancel(make(chan string, 1)), alive: true,
		dead: make(chan struct{}),
	}
	s.calls, s.end = context.WithCancelCause(context.Background())
	s.waits, s.endWaits = context.WithCancelCause(s.calls)
	s.unbegun, s.shed = context.WithCancelCause(s.waits)
	prefetch := q.cfg.Prefetch
	if alone {
		prefetch = 1
	}
	if err = ch.Qos(prefetch, 0, false); err == nil {
		s.deliveries, err = ch.Consume(q.cfg.Name, s.tag, false, false, false, false, nil)
	}
	if err != nil {
		_ = ch.Close() // closed already, most likely
		s.end(ErrLost)
		return nil, err
	}
	q.wg.Go(func() { s.watch(closes) })
	return s, nil
}

// watch notes the channel's end, whoever ended it. What is then unsettled the broker delivers again.
func (s *subscription) watch(closes <-chan *amqp.Error) {
	cause := <-closes
	s.mu.Lock()
	was := s.alive
	s.alive = false
	s.mu.Unlock()
	if was && cause != nil && cause.Server && !s.se.isOver() {
		s.q.log.Warn("the broker closed the channel", "code", cause.Code, "text", cause.Reason)
	}
	s.end(ErrLost)
	close(s.dead)
}

// settle runs f on the channel while it is alive, and reports whether it did. Acks and returns go through it: each
// delivery once, over the channel that it came by, and never after the broker has cancelled or closed it.
func (s *subscription) settle(f func(*amqp.Channel) error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = time.Now()
	return s.alive && !s.ch.IsClosed() && f(s.ch) == nil
}

// settleTime is how long a channel stays open after its last ack or return. A quorum queue's channel holds acks back
// while more than 32 commands are on their way to the queue, and drops them when it is closed: seen on 3.10, where 4 to
// 7 messages that had been acked were delivered again after each stop with 100 prefetched.
const settleTime = 500 * time.Millisecond

// linger lets the last acks reach the queue.
func (s *subscription) linger() {
	s.mu.Lock()
	left := time.Until(s.settled.Add(settleTime))
	s.mu.Unlock()
	timer := time.NewTimer(max(left, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.dead:
	}
}

// stop ends the consumer and reads what the client library has buffered or gets until then; each goes to take.
func (s *subscription) stop(take func(amqp.Delivery)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.se.guard("cancel the consumer of " + s.q.cfg.Name)()
		// An error means that the channel has ended, and with it the deliveries.
		_ = s.ch.Cancel(s.tag, false)
	}()
	for d := range s.deliveries {
		take(d)
	}
	<-done
}

// forsake is for a consumer that the broker has cancelled: nothing is settled over its channel any more. Where the
// queue is gone, what is held here is the last copy, and handlers go on.
func (s *subscription) forsake(gone bool) {
	s.mu.Lock()
	s.alive = false
	s.mu.Unlock()
	if !gone {
		s.end(ErrLost)
	}
}

// close ends the channel; everything unsettled goes back.
func (s *subscription) close() {
	s.linger()
	end := s.se.guard("close the channel of " + s.q.cfg.Name)
	_ = s.ch.Close() // an error says that it is closed
	end()
	<-s.dead
}

// add counts a delivery, done its end.
func (s *subscription) add() {
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
}

func (s *subscription) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open--; s.open == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// whenIdle returns a channel that is closed once no delivery is without its end. No delivery is added after the call.
func (s *subscription) whenIdle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := make(chan struct{})
	if s.open == 0 {
		close(idle)
		return idle
	}
	s.idle = idle
	return idle
}
