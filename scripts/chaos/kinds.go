package main

import (
	"context"
	"slices"
	"time"
)

// kind is one kind of fault.
type kind struct {
	name string
	hold [2]time.Duration // shortest and longest
	// mode it belongs to; "" is that of single servers.
	mode string
	// consumers says that it needs processes which consume.
	consumers bool
	// stores it applies to; nil means all.
	stores []string
	// database says that it keeps outcomes from being written, so that an acked row may
	// outlive its lease.
	database bool
	// silent says that it leaves sends without an answer on open sockets: they are given up
	// after a while only.
	silent bool
	// act breaks something, holds it broken, mends it and returns the proof that it bit.
	act func(context.Context, *fault) (proof, error)
}

// proof is how a fault showed in what it was aimed at: 0 means that it did not bite.
type proof struct {
	Count int
	What  string
}

// seconds is a range of whole seconds for kind.hold.
func seconds(from, to int) [2]time.Duration {
	return [2]time.Duration{time.Duration(from) * time.Second, time.Duration(to) * time.Second}
}

// servers are the stores that are a server.
func servers() []string { return []string{storeMySQL, storePostgres} }

// kinds are all kinds of fault, in the order that plans start from: add at the end.
func kinds() []kind {
	return []kind{
		{name: "broker-stop", hold: seconds(1, 3), act: brokerStop},
		{name: "broker-kill", hold: seconds(1, 3), act: brokerKill},
		{name: "memory-alarm", hold: seconds(3, 6), act: memoryAlarm},
		{name: "connections-closed", hold: seconds(1, 2), act: connectionsClosed},
		{name: "exchange-gone", hold: seconds(2, 4), act: exchangeGone},
		{name: "binding-gone", hold: seconds(2, 4), act: bindingGone},
		{name: "permission-gone", hold: seconds(2, 3), act: permissionGone},
		{name: "queue-full", hold: seconds(3, 6), act: queueFull},
		{name: "link-cut", hold: seconds(1, 2), act: linkCut},
		{name: "link-stall", hold: seconds(6, 8), silent: true, act: linkStall},
		{name: "link-half-open", hold: seconds(6, 8), silent: true, act: linkHalfOpen},
		{name: "link-delay", hold: seconds(4, 7), act: linkDelay},
		{name: "acks-swallowed", hold: seconds(6, 8), silent: true, act: acksSwallowed},
		{name: "database-stop", hold: seconds(1, 4), stores: servers(), database: true, act: databaseStop},
		{name: "database-kill", hold: seconds(1, 4), stores: servers(), database: true, act: databaseKill},
		{name: "database-read-only", hold: seconds(3, 6), stores: servers(), database: true, act: databaseReadOnly},
		{name: "table-locked", hold: seconds(8, 8), database: true, act: tableLocked},
		{name: "deadlock-storm", hold: seconds(3, 6), stores: servers(), database: true, act: deadlockStorm},
		{name: "redis-stop", hold: seconds(2, 5), act: redisStop},
		{name: "redis-flush", hold: seconds(1, 2), act: redisFlush},
		{name: "publisher-kill", hold: seconds(0, 1), act: publisherKill},
		{name: "publisher-term", hold: seconds(0, 1), act: publisherTerm},
		{name: "compensator-kill", hold: seconds(0, 1), act: compensatorKill},
		{name: "compensator-pause", hold: [2]time.Duration{3 * lockTTL, 3 * lockTTL}, act: compensatorPause},
		{name: "clock-step", hold: seconds(3, 5), act: clockStep},
	}
}

func kindsFor(o options) []kind {
	all := slices.Concat(kinds(), clusterKinds(), failoverKinds(), galeraKinds(), consumerKinds())
	return slices.DeleteFunc(all, func(k kind) bool {
		return k.mode != o.mode || k.consumers && !o.consumers || k.stores != nil && !slices.Contains(k.stores, o.store)
	})
}
