package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

const (
	// callTimeout bounds a call to the broker: the client library knows no deadline for one.
	callTimeout = 10 * time.Second
	closeGrace  = 2 * time.Second
)

// session is one connection and the subscriptions on it.
type session struct {
	c          *Consumer
	generation uint64
	dialled    broker.Dialled
	login      broker.Login  // keepLogin's alone
	asked      chan struct{} // cap 1: the broker refuses the login
	over       chan struct{} // closed when the connection is lost or given up
	wg         sync.WaitGroup

	mu     sync.Mutex
	reason string // why it was ended, if by us
}

func newSession(c *Consumer, generation uint64, d broker.Dialled) *session {
	return &session{
		c: c, generation: generation, dialled: d, login: d.Login,
		asked: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// run serves the connection until it is lost, or ctx ends and the queues are drained. It returns why. Handlers that go
// on in spite of their context are the queues'.
func (se *session) run(ctx context.Context) error {
	closed := se.dialled.Conn.NotifyClose(make(chan *amqp.Error, 1))
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	drained := make(chan struct{})
	var serving sync.WaitGroup
	for _, q := range se.c.queues {
		serving.Go(func() { q.serve(ctx, se) })
	}
	go func() {
		serving.Wait()
		close(drained)
	}()
	se.wg.Go(func() { se.keepLogin(life) })

	var lost *amqp.Error
	select {
	case lost = <-closed:
	case <-drained: // ctx has ended
	}
	close(se.over)
	end()
	if lost == nil {
		se.dialled.CloseGracefully(closeGrace)
	} else {
		se.dialled.Wire.Goodbye()
	}
	se.dialled.Wire.Kill()
	<-drained
	se.wg.Wait()
	<-se.dialled.Wire.Flushed
	return fmt.Errorf("connection lost: %s", se.endText(lost))
}

// guard bounds a call into the library that waits for the broker: too late an answer ends the connection, and with it
// the call.
func (se *session) guard(what string) (end func()) {
	timer := time.AfterFunc(callTimeout, func() {
		se.kill(fmt.Sprintf("%s: no answer within %s", what, callTimeout))
	})
	return func() { timer.Stop() }
}

func (se *session) kill(reason string) {
	se.mu.Lock()
	if se.reason == "" {
		se.reason = reason
	}
	se.mu.Unlock()
	se.dialled.Wire.Kill()
}

func (se *session) endText(cause *amqp.Error) string {
	se.mu.Lock()
	defer se.mu.Unlock()
	switch broken := se.dialled.Wire.Failure(); {
	case se.reason != "":
		return se.reason
	case broken != nil && (cause == nil || !cause.Server):
		return model.CleanText(broken.Error())
	case cause == nil:
		return "closed"
	case cause.Server:
		return model.CleanText(fmt.Sprintf("%d %s", cause.Code, cause.Reason))
	default:
		return model.CleanText(cause.Reason)
	}
}

func (se *session) isOver() bool {
	select {
	case <-se.over:
		return true
	default:
		return false
	}
}

// refused looks at why a subscription was refused: a login that ran out is renewed at once.
func (se *session) refused(err error) {
	var cause *amqp.Error
	if errors.As(err, &cause) && broker.RefusesLogin(cause) {
		select {
		case se.asked <- struct{}{}:
		default:
		}
	}
}

// keepLogin gives the broker a new password of the same user on the open connection, before a token ends and else each
// minute. Another user's login waits for the next connection.
func (se *session) keepLogin(life context.Context) {
	for {
		timer := time.NewTimer(broker.RenewIn(se.login.Password, time.Now()))
		select {
		case <-timer.C:
			se.renewLogin(life)
		case <-se.asked:
			timer.Stop()
			se.renewLogin(life)
		case <-se.over:
			timer.Stop()
			return
		}
	}
}

func (se *session) renewLogin(life context.Context) {
	ctx, cancel := context.WithTimeout(life, se.c.cfg.DialTimeout)
	defer cancel()
	user, password, err := se.c.cfg.Credentials(ctx)
	given := broker.Login{User: user, Password: password}
	switch {
	case err != nil:
		if life.Err() == nil {
			se.c.log.Warn("get credentials to renew the login", "error", err)
		}
		return
	case given == se.login || user != se.login.User:
		return
	}
	end := se.guard("renew the login")
	err = se.dialled.Conn.UpdateSecret(password, "renewed")
	end()
	if err != nil {
		se.kill("renew the login: " + err.Error())
		return
	}
	se.login = given
	se.c.log.Debug("login renewed", "generation", se.generation)
}
