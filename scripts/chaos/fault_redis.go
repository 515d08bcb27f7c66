package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

func redisStop(ctx context.Context, f *fault) (proof, error) {
	if err := f.redis.Stop(); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "compensators without their lock", f.events(wordRedis, "does not answer"))
	return p, errors.Join(err, f.redis.Start(context.WithoutCancel(ctx)))
}

// redisFlush deletes every key at a moment at which a lock is held.
func redisFlush(ctx context.Context, f *fault) (proof, error) {
	client := redis.NewClient(&redis.Options{Addr: f.redis.Addr(), MaxRetries: -1})
	defer client.Close()
	lost := 0
	var failed error
	p, err := f.hold(ctx, "locks deleted", func() int {
		if lost == 0 && failed == nil {
			lost, failed = client.Eval(ctx, "local n = redis.call('DBSIZE') redis.call('FLUSHALL') return n", nil).Int()
		}
		return lost
	})
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("flush redis: %w", failed))
	}
	return p, err
}
