package main

import (
	"context"
	"errors"
	"strings"
	"time"
)

// movable is a database of two servers, of which one can take the other's place.
type movable interface {
	database
	// promote makes the replica the primary; the address still leads to the old one.
	promote(context.Context) error
	// move leads new connections to the primary; cut ends those to the old one.
	move(cut bool)
	// rejoin makes the old primary the replica, started anew where it is down.
	rejoin(context.Context) error
	// freeze stops the primary where it is; thaw lets the old one go on for a moment, then kills it.
	freeze() error
	thaw() error
	// barred makes the primary refuse writes and waits until the replica has what it took.
	barred(context.Context) error
	// identity is which server answers at the address, and whether it takes writes.
	identity(context.Context) (string, error)
}

// failoverKinds are the faults of a primary with a replica.
func failoverKinds() []kind {
	kinds := []kind{
		{name: "primary-killed", hold: seconds(1, 4), act: primaryKilled},
		{name: "switch-over", hold: seconds(2, 4), act: switchOver},
		{name: "old-primary-back", hold: seconds(2, 5), act: oldPrimaryBack},
		{name: "redis-promoted", hold: seconds(1, 3), act: redisPromoted},
	}
	for i := range kinds {
		kinds[i].mode, kinds[i].stores = modeFailover, []string{storeMySQL, storePostgres}
		kinds[i].database = kinds[i].name != "redis-promoted"
		kinds[i].silent = kinds[i].database // sockets to a server that is frozen or read only stay open
	}
	return kinds
}

// primaryKilled promotes the replica after a kill and brings the old primary back as replica.
func primaryKilled(ctx context.Context, f *fault) (proof, error) {
	return f.moved(ctx, func(ctx context.Context, db movable) error {
		if err := db.kill(); err != nil {
			return err
		}
		if err := sleep(ctx, f.step.Hold); err != nil {
			return err
		}
		if err := db.promote(ctx); err != nil {
			return err
		}
		db.move(true)
		return nil
	})
}

// switchOver makes the primary read only, promotes the replica and moves the address. Open
// connections stay at the old server: whoever has one must leave it by itself.
func switchOver(ctx context.Context, f *fault) (proof, error) {
	return f.moved(ctx, func(ctx context.Context, db movable) error {
		if err := db.barred(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, f.step.Hold); err != nil {
			return err
		}
		if err := db.promote(ctx); err != nil {
			return err
		}
		db.move(false)
		return nil
	})
}

// oldPrimaryBack freezes the primary, promotes the replica, moves the address and lets the
// old one go on: what it commits then is nobody's.
func oldPrimaryBack(ctx context.Context, f *fault) (proof, error) {
	return f.moved(ctx, func(ctx context.Context, db movable) error {
		if err := db.freeze(); err != nil {
			return err
		}
		if err := sleep(ctx, f.step.Hold); err != nil {
			return err
		}
		if err := db.promote(ctx); err != nil {
			return err
		}
		db.move(true)
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
		return db.thaw()
	})
}

// moved does a fail-over, and then the old primary comes back. It bit when calls failed and
// another server answers at the address.
func (f *fault) moved(ctx context.Context, do func(context.Context, movable) error) (proof, error) {
	db, ok := f.db.(movable)
	if !ok {
		return proof{}, errors.New("the store has no replica")
	}
	before, err := db.identity(ctx)
	if err != nil {
		return proof{}, err
	}
	// To the end also when interrupted: half of it is no state to close.
	whole := context.WithoutCancel(ctx)
	if err := do(whole, db); err != nil {
		return proof{}, err
	}
	failed := f.failures()
	if err := db.rejoin(whole); err != nil {
		return proof{}, err
	}
	p := proof{What: "calls and writes failed, and another primary"}
	if after, err := db.identity(whole); err != nil {
		return p, err
	} else if after != before {
		p.Count = max(failed, f.failures())
	}
	return p, ctx.Err()
}

// replaceAddr puts another address into a DSN.
func replaceAddr(dsn, from, to string) string { return strings.Replace(dsn, from, to, 1) }
