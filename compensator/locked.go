package compensator

import (
	"context"
	"fmt"
)

// identified is a Store that says which tables it is; gormstore's does. The locks are then
// those tables' alone, whatever else uses the same lock service with the same settings.
type identified interface {
	Identity(ctx context.Context) (string, error)
}

// answering is a Locker that knows whether its lock service answers.
type answering interface {
	Answers() bool
}

// locked calls fn while a slot of the scope is ours.
func (c *Compensator) locked(
	ctx context.Context, scope string, fn func(context.Context, func() bool) error,
) error {
	scope, err := c.scoped(ctx, scope)
	if err != nil {
		return err
	}
	err = c.cfg.Locker.Do(ctx, scope, fn)
	if l, ok := c.cfg.Locker.(answering); ok && ctx.Err() == nil {
		c.cfg.observer.LockService(l.Answers())
	}
	return err
}

// scoped puts the identity of the store before the scope. It is asked for until the database
// answers, and then known.
func (c *Compensator) scoped(ctx context.Context, scope string) (string, error) {
	store, ok := c.cfg.Store.(identified)
	if !ok {
		return scope, nil
	}
	c.identityMu.Lock()
	defer c.identityMu.Unlock()
	if c.identity == "" {
		call, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		id, err := store.Identity(call)
		if err != nil {
			c.cfg.observer.StoreError("identity", err)
			return "", fmt.Errorf("name the lock: %w", err)
		}
		c.identity = id
	}
	return c.identity + "/" + scope, nil
}
