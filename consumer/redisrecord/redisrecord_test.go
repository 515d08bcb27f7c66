package redisrecord_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/consumer/redisrecord"
	"github.com/transmsg/transmsg/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errProvider = errors.New("declined")

// rig is a handler on Redis, with keys that nobody else has.
type rig struct {
	client *redis.Client
	prefix string
	call   func(context.Context) error
	calls  int
	handle consumer.Handler
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		client: redis.NewClient(&redis.Options{Addr: dbtest.Redis()}),
		prefix: "transmsg_test_" + rand.Text() + ":", call: func(context.Context) error { return nil },
	}
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		keys, err := r.client.Keys(ctx, r.prefix+"*").Result()
		if err == nil && len(keys) > 0 {
			err = r.client.Del(ctx, keys...).Err()
		}
		if err := errors.Join(err, r.client.Close()); err != nil {
			t.Error(err)
		}
	})
	r.handle = r.handler(t)
	return r
}

func (r *rig) handler(t *testing.T) consumer.Handler {
	t.Helper()
	records, err := redisrecord.New(r.client, r.prefix)
	if err != nil {
		t.Fatal(err)
	}
	h, err := effect.Outside(effect.OutsideConfig{Consumer: "payments", Records: records, Lease: time.Second},
		func(ctx context.Context, m *consumer.Message, key string) error {
			if r.calls++; key != "payments/"+m.ID {
				t.Errorf("key %q", key)
			}
			return r.call(ctx)
		})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func message(id string) *consumer.Message { return &consumer.Message{ID: id} }

func (r *rig) record(t *testing.T, id string) string {
	t.Helper()
	v, err := r.client.Get(t.Context(), r.prefix+"payments/"+id).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

func TestDoneIsSkipped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.handle(t.Context(), message("x")); err != nil {
		t.Fatal(err)
	}
	if err := r.handle(t.Context(), message("x")); !consumer.IsSkipped(err) || r.calls != 1 {
		t.Errorf("got %v after %d calls, want it skipped after 1", err, r.calls)
	}
	if left := r.client.PTTL(t.Context(), r.prefix+"payments/x").Val(); left < 29*24*time.Hour {
		t.Errorf("done is kept for %v, want 30 days", left)
	}
}

// TestAFailedCallIsRepeatedAtOnce: nobody waits for its lease.
func TestAFailedCallIsRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.call = func(context.Context) error { return errProvider }
	if err := r.handle(t.Context(), message("x")); !errors.Is(err, errProvider) || consumer.IsBusy(err) {
		t.Fatalf("got %v, want the call's own error", err)
	}
	r.call = func(context.Context) error { return nil }
	if err := r.handle(t.Context(), message("x")); err != nil || r.calls != 2 {
		t.Errorf("got %v after %d calls, want a second call", err, r.calls)
	}
}

// TestAtItIsBusy: also for longer than a lease, which is renewed.
func TestAtItIsBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := r.handler(t)
	begun := time.Now()
	r.call = func(context.Context) error {
		for time.Since(begun) < 2500*time.Millisecond { // the lease is a second
			if err := other(t.Context(), message("x")); !consumer.IsBusy(err) {
				t.Errorf("the other got %v after %v, want busy", err, time.Since(begun))
				return nil
			}
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}
	if err := r.handle(t.Context(), message("x")); err != nil || r.calls != 1 {
		t.Errorf("got %v after %d calls, want 1", err, r.calls)
	}
}

// TestADeadProcessLetsGo: its record ends with its lease.
func TestADeadProcessLetsGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.client.Set(t.Context(), r.prefix+"payments/x", "processing:dead", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.handle(t.Context(), message("x")); !consumer.IsBusy(err) || r.calls != 0 {
		t.Fatalf("got %v after %d calls, want busy", err, r.calls)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := r.handle(t.Context(), message("x"))
		if err == nil {
			break
		}
		if !consumer.IsBusy(err) || time.Now().After(deadline) {
			t.Fatalf("got %v", err)
		}
	}
}

// TestALostRecordEndsTheCall: somebody else may be at it by now; what they hold is theirs.
func TestALostRecordEndsTheCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.call = func(ctx context.Context) error {
		key := r.prefix + "payments/x"
		if err := r.client.Set(t.Context(), key, "processing:other", time.Minute).Err(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return ctx.Err()
	}
	if err := r.handle(t.Context(), message("x")); !consumer.IsBusy(err) {
		t.Errorf("got %v, want busy", err)
	}
	if got := r.record(t, "x"); got != "processing:other" {
		t.Errorf("the record is %q, want the other's", got)
	}
}

func TestRedisAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	r := &rig{client: client, call: func(context.Context) error { return nil }}
	if err := r.handler(t)(t.Context(), message("x")); !consumer.IsUnavailable(err) || r.calls != 0 {
		t.Errorf("got %v after %d calls, want unavailable", err, r.calls)
	}
}
