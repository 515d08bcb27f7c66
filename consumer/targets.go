package consumer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// askTargets asks the broker for what copies need and is away, where no message is held any more that tries by itself
// (it went back in time): the queue takes nothing until it is there. A passive declare needs no right. That the target
// exists does not say that it takes a message; the next copy does.
func (q *queue) askTargets(ctx context.Context, se *session) {
	ticker := time.NewTicker(recheck)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-se.over:
			return
		case <-ctx.Done():
			return
		}
		for _, g := range q.unattended(time.Now()) {
			exists := se.exists(g.target[0], g.target[1])
			q.mu.Lock()
			switch {
			case !g.shut || g.tester != nil:
			case exists:
				q.log.Info("going on: it is there again", "what", g.what, "after", time.Since(g.since))
				g.shut, g.tries = false, 0
			default:
				g.tries++
				g.next = time.Now().Add(jittered(backoff(g.tries, g.limit)))
			}
			q.derive()
			q.tell()
			q.mu.Unlock()
		}
	}
}

// unattended returns the shut gates of copies that are due to be tried and that no message tries.
func (q *queue) unattended(now time.Time) (all []*gate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.copies {
		if g.shut && g.tester == nil && !now.Before(g.next) {
			all = append(all, g)
		}
	}
	return all
}

// exists asks for an exchange, or for the queue that the default exchange routes to.
func (se *session) exists(exchange, key string) bool {
	defer se.guard("ask for what copies need")()
	ch, err := se.dialled.Conn.Channel()
	if err != nil {
		return false
	}
	defer ch.Close() // closed by the broker where it is missing
	if exchange == "" {
		_, err = ch.QueueDeclarePassive(key, true, false, false, false, nil)
	} else {
		err = ch.ExchangeDeclarePassive(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
	}
	return err == nil
}
