package effect

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// Defaults and bounds of [OutsideConfig].
const (
	DefaultLease = 30 * time.Second
	DefaultKeep  = 30 * 24 * time.Hour
	minLease     = time.Second
	minKeep      = time.Hour
	recordCall   = 5 * time.Second
)

// RecordState is what a record says when somebody would begin.
type RecordState uint8

const (
	// RecordBegun is the caller's own: nobody else is at it until its lease ends.
	RecordBegun RecordState = iota
	// RecordHeld says that somebody else is at it.
	RecordHeld
	// RecordDone says that the effect exists.
	RecordDone
)

// Records keep what [Outside] knows of a message: "processing", with a lease that a dead process lets end, and then
// "done". Package redisrecord has them on Redis. They may lose a record: then the idempotency key is what is left.
type Records interface {
	// Begin makes the record processing for token unless it is processing or done.
	Begin(ctx context.Context, key, token string, lease time.Duration) (RecordState, error)
	// Extend renews the lease from now on, and reports whether the record was still the token's.
	Extend(ctx context.Context, key, token string, lease time.Duration) (held bool, err error)
	// Done makes the record done for so long, whoever holds it: the effect exists.
	Done(ctx context.Context, key string, keep time.Duration) error
	// Release deletes the record where it is processing for token.
	Release(ctx context.Context, key, token string) error
}

// OutsideConfig sets up [Outside]. Consumer and Records are required.
type OutsideConfig struct {
	// Consumer, Formerly and Key are as in [Config].
	Consumer string
	Formerly []string
	Key      func(*consumer.Message) ([]byte, error)
	// Records is where it is noted who is at a message and what is done.
	Records Records
	// Lease is how long a message stays with a process that has died, at least 1 s. It is renewed during the call.
	// Defaults to 30 s.
	Lease time.Duration
	// Keep is how long "done" is kept, at least 1 h: longer than a message can come back from queues or dead letters.
	// Defaults to 30 days.
	Keep time.Duration
}

// outside makes the calls.
type outside struct {
	cfg  OutsideConfig
	once *Once
	call func(ctx context.Context, m *consumer.Message, key string) error
}

// Outside makes a handler for an effect that no database of ours knows of: call is told an idempotency key and is
// made under a record that keeps others away. It may be called again for the same message, with the same key, after a
// crash or after records were lost. A message without an id or key is a dead letter. Records that cannot be asked are
// [consumer.Unavailable]; somebody else's record is [consumer.Busy].
func Outside(
	cfg OutsideConfig, call func(ctx context.Context, m *consumer.Message, key string) error,
) (consumer.Handler, error) {
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	if err := model.CheckConsumers(cfg.Consumer, cfg.Formerly); err != nil {
		return nil, fmt.Errorf("effect: config: Consumer: %w", err)
	}
	switch {
	case cfg.Records == nil:
		return nil, errors.New("effect: config: Records is required: make them with package redisrecord")
	case cfg.Lease < minLease:
		return nil, fmt.Errorf("effect: config: Lease %v must be at least %v", cfg.Lease, minLease)
	case cfg.Keep < minKeep:
		return nil, fmt.Errorf("effect: config: Keep %v must be at least %v", cfg.Keep, minKeep)
	}
	once := &Once{Config{Consumer: cfg.Consumer, Formerly: cfg.Formerly, Key: cfg.Key}}
	return (&outside{cfg, once, call}).handle, nil
}

// errHeld is told of a message that somebody else is at.
var errHeld = errors.New("somebody else is at this message, or was when their process ended: their lease has not ended")

// errLeaseLost ends a call whose record is no longer its own.
var errLeaseLost = errors.New("effect: the record's lease was lost")

func (o *outside) handle(ctx context.Context, m *consumer.Message) error {
	if publisher.TxFrom(ctx) != nil {
		return ErrInTx
	}
	key, err := o.once.IdempotencyKey(m)
	if err != nil {
		return consumer.Permanent(err)
	}
	token := rand.Text()
	state, err := o.cfg.Records.Begin(ctx, key, token, o.cfg.Lease)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return consumer.Unavailable(fmt.Errorf("effect: begin the record: %w", err))
	case state == RecordDone:
		return consumer.Skipped("done")
	case state == RecordHeld:
		return consumer.Busy(errHeld)
	}
	return o.end(ctx, key, token, o.leased(ctx, key, token, func(ctx context.Context) error {
		return o.call(ctx, m, key)
	}))
}

// leased makes the call and keeps its lease; a call whose lease is lost ends with its context.
func (o *outside) leased(ctx context.Context, key, token string, call func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer cancel(nil)
	keeper.Go(func() {
		for last := time.Now(); sleep(ctx, o.cfg.Lease/3); {
			held, err := o.cfg.Records.Extend(ctx, key, token, o.cfg.Lease)
			switch {
			case err == nil && held:
				last = time.Now()
			case err == nil || time.Since(last) > o.cfg.Lease*2/3:
				cancel(errLeaseLost)
				return
			}
		}
	})
	err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errLeaseLost) {
		return consumer.Busy(fmt.Errorf("%w: %w", errLeaseLost, err))
	}
	return err
}

// end writes down what became of the call, also when its context has ended. A call that failed may have had its effect:
// the next one has the same idempotency key.
func (o *outside) end(ctx context.Context, key, token string, failed error) error {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordCall)
	defer cancel()
	if failed != nil {
		_ = o.cfg.Records.Release(clean, key, token) // else its lease ends
		return failed
	}
	if err := o.cfg.Records.Done(clean, key, o.cfg.Keep); err != nil {
		// Acked now, a repeat would meet no record. The next delivery calls again, with the same key.
		err = fmt.Errorf("effect: the effect exists, and its record could not be written: %w", err)
		return consumer.Unavailable(err)
	}
	return nil
}

// sleep waits and reports whether ctx is still there.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
