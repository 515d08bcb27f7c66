package operate_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/compensator/redislocker"
	"github.com/transmsg/transmsg/internal/dbtest"
)

var redisFence = regexp.MustCompile("(?s)```redis\n(.*?)\n```")

func TestRedisUserCanLockAndNoMore(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("grants.md")
	if err != nil {
		t.Fatal(err)
	}
	found := redisFence.FindSubmatch(page)
	if found == nil {
		t.Fatal("grants.md has no block for Redis")
	}
	server := dbtest.StartRedis(t)
	admin := client(t, server.Addr(), "", "")
	var acl []any
	for _, word := range strings.Fields(string(found[1])) {
		acl = append(acl, word)
	}
	if err := admin.Do(t.Context(), acl...).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, user := t.Context(), client(t, server.Addr(), "transmsg", "change-me")
	locks := redislock.New(user)
	lock, err := locks.Obtain(ctx, redislocker.DefaultPrefix+":orders/1", time.Minute, nil)
	if err != nil {
		t.Fatalf("obtain: %v", err)
	}
	must(t, "refresh", lock.Refresh(ctx, time.Minute, nil))
	_, err = lock.TTL(ctx)
	must(t, "ttl", err)
	must(t, "release", lock.Release(ctx))
	for act, err := range map[string]error{
		"lock of another prefix": obtainErr(locks.Obtain(ctx, "cache:orders", time.Minute, nil)),
		"read":                   user.Get(ctx, "cache:orders").Err(),
		"flush":                  user.FlushAll(ctx).Err(),
		"configure":              user.ConfigGet(ctx, "*").Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "No permissions") &&
			!strings.Contains(err.Error(), "can't run this command") {
			t.Errorf("%s = %v, want a refusal", act, err)
		}
	}
}

func obtainErr(_ *redislock.Lock, err error) error { return err }

func client(t *testing.T, addr, user, password string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
