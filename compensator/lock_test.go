package compensator_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/compensator/redislocker"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
)

var sharedRedis = dbtest.Redis()

func redisClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func redisLocker(t *testing.T, cfg redislocker.Config) *redislocker.Locker {
	t.Helper()
	l, err := redislocker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func freshPrefix() string { return "transmsg-test-" + strings.ToLower(rand.Text()) }

// eventually polls until the state holds.
func eventually(t *testing.T, state string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", state)
		}
		<-tick.C
	}
}

func TestLockersGiveSlots(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	for name, locker := range map[string]func(slots int) compensator.Locker{
		"local": func(slots int) compensator.Locker { return &compensator.LocalLocker{Slots: slots} },
		"miniredis": func(slots int) compensator.Locker {
			return redisLocker(t, redislocker.Config{
				Client: redisClient(t, mini.Addr()), Slots: slots,
				Prefix: freshPrefix(),
			})
		},
		"redis": func(slots int) compensator.Locker {
			return redisLocker(t, redislocker.Config{
				Client: redisClient(t, sharedRedis), Slots: slots,
				Prefix: freshPrefix(),
			})
		},
	} {
		for _, slots := range []int{1, 3} {
			l := locker(slots)
			n, err := nest(t, l, "a")
			if n != slots || !errors.Is(err, compensator.ErrLocked) {
				t.Errorf("%s with %d slots: %d runs at a time, then %v; want %d, then ErrLocked",
					name, slots, n, err, slots)
			}
			// Every slot was given back, and another scope has its own.
			err = l.Do(t.Context(), "a", func(ctx context.Context, held func() bool) error {
				if !held() || ctx.Err() != nil {
					t.Errorf("%s: a fresh slot is not held", name)
				}
				n, _ := nest(t, l, "b")
				if n != slots {
					t.Errorf("%s: %d slots of another scope, want %d", name, n, slots)
				}
				return context.Canceled
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Do returned %v, want the function's own error", name, err)
			}
		}
	}
}

// nest takes slots inside each other until none is left.
func nest(t *testing.T, l compensator.Locker, scope string) (int, error) {
	n := 0
	var last error
	var take func(context.Context, func() bool) error
	take = func(ctx context.Context, _ func() bool) error {
		n++
		if err := l.Do(ctx, scope, take); err != nil {
			last = err // of the innermost, which got no slot
		}
		return nil
	}
	if err := l.Do(t.Context(), scope, take); err != nil {
		return n, err
	}
	return n, last
}

// C50: the slot is given back although the run's context has ended, and also after a
// panic; the next holder need not wait for the TTL.
func TestC50_LockIsReleasedAfterCancel(t *testing.T) {
	t.Parallel()
	client := redisClient(t, sharedRedis)
	prefix := freshPrefix()
	l := redisLocker(t, redislocker.Config{Client: client, Prefix: prefix, TTL: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	held := func() int64 {
		n, err := client.Exists(t.Context(), prefix+":all/1").Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := l.Do(ctx, "all", func(ctx context.Context, _ func() bool) error {
		if held() != 1 {
			t.Error("no key while the slot is held")
		}
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || held() != 0 {
		t.Errorf("after cancel: error %v, %d keys; want canceled and none", err, held())
	}
	func() {
		defer func() { _ = recover() }()
		_ = l.Do(t.Context(), "all", func(context.Context, func() bool) error { panic("in a run") })
	}()
	if held() != 0 {
		t.Error("the key stays after a panic")
	}
}

// The slot is renewed for as long as the run takes.
func TestRedisLockIsRenewed(t *testing.T) {
	t.Parallel()
	client := redisClient(t, sharedRedis)
	l := redisLocker(t, redislocker.Config{Client: client, Prefix: freshPrefix(), TTL: time.Second})
	err := l.Do(t.Context(), "all", func(ctx context.Context, held func() bool) error {
		end := time.Now().Add(3 * time.Second) // three TTLs
		eventually(t, "three TTLs have passed", func() bool {
			if ctx.Err() != nil || !held() {
				t.Errorf("lost: %v", context.Cause(ctx))
				return true
			}
			return time.Now().After(end)
		})
		other := l.Do(ctx, "all", func(context.Context, func() bool) error { return nil })
		if !errors.Is(other, compensator.ErrLocked) {
			t.Errorf("another after three TTLs: %v, want ErrLocked", other)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A slot that somebody else has, or that cannot be renewed, ends the run with the cause.
func TestRedisLockLoss(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, m *miniredis.Miniredis, key string){
		"taken by another": func(t *testing.T, m *miniredis.Miniredis, key string) {
			if err := m.Set(key, "another's token"); err != nil {
				t.Error(err)
			}
		},
		"redis goes away": func(_ *testing.T, m *miniredis.Miniredis, _ string) { m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mini := miniredis.NewMiniRedis()
			if err := mini.Start(); err != nil {
				t.Fatal(err)
			}
			defer mini.Close()
			l := redisLocker(t, redislocker.Config{
				Client: redisClient(t, mini.Addr()), Prefix: "p",
				TTL: 300 * time.Millisecond,
			})
			err := l.Do(t.Context(), "all", func(ctx context.Context, held func() bool) error {
				breakIt(t, mini, "p:all/1")
				eventually(t, "the run is ended", func() bool { return ctx.Err() != nil })
				return context.Cause(ctx)
			})
			if !errors.Is(err, compensator.ErrLockLost) {
				t.Errorf("cause %v, want ErrLockLost", err)
			}
			if name == "taken by another" {
				if v, _ := mini.Get("p:all/1"); v != "another's token" {
					t.Errorf("the other's key is %q after our release, want it untouched", v)
				}
			}
		})
	}
}

// Redis down: go on by claims, or pause, by option; it is said once, and without secrets.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	for _, pause := range []bool{false, true} {
		mini := miniredis.NewMiniRedis()
		mini.RequireAuth("CANARY")
		if err := mini.Start(); err != nil {
			t.Fatal(err)
		}
		addr := mini.Addr()
		mini.Close()
		client := redis.NewClient(&redis.Options{Addr: addr, Password: "CANARY", MaxRetries: -1})
		log := &logtest.Buffer{}
		l := redisLocker(t, redislocker.Config{
			Client: client, PauseWhenDown: pause,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		var text strings.Builder
		ran := 0
		for range 3 {
			err := l.Do(t.Context(), "all", func(ctx context.Context, held func() bool) error {
				if !held() || ctx.Err() != nil {
					t.Error("a run without a lock must go on")
				}
				ran++
				return nil
			})
			if errors.Is(err, compensator.ErrLockUnavailable) != pause {
				t.Errorf("pause %v: error %v", pause, err)
			}
			if err != nil {
				text.WriteString(err.Error())
			}
		}
		if want := map[bool]int{false: 3, true: 0}[pause]; ran != want {
			t.Errorf("pause %v: %d runs, want %d", pause, ran, want)
		}
		if n := len(log.Lines("redis does not answer")); n != 1 {
			t.Errorf("pause %v: said %d times, want once", pause, n)
		}
		if strings.Contains(text.String(), "CANARY") || len(log.Lines("CANARY")) > 0 {
			t.Error("the password is in an error or the log")
		}
		if err := mini.StartAddr(addr); err != nil {
			t.Fatal(err)
		}
		eventually(t, "redis answers again", func() bool {
			_ = l.Do(t.Context(), "all", func(context.Context, func() bool) error { return nil })
			return len(log.Lines("redis answers again")) == 1
		})
		mini.Close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewRedisLockerRefuses(t *testing.T) {
	t.Parallel()
	client := redisClient(t, sharedRedis)
	for want, cfg := range map[string]redislocker.Config{
		"Client is missing":         {},
		"Slots 65 must be 1 to 64":  {Client: client, Slots: 65},
		"Slots -1":                  {Client: client, Slots: -1},
		"TTL 1ms must be 300ms to ": {Client: client, TTL: time.Millisecond},
		"TTL 1h0m0s":                {Client: client, TTL: time.Hour},
	} {
		if _, err := redislocker.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
