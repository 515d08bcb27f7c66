package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	// faultEvery is the mean time from the start of one fault to that of the next.
	faultEvery = 10 * time.Second
	// warmUp is traffic without faults at the start.
	warmUp = 4 * time.Second
	// noFaults as --only deals none.
	noFaults = "none"
)

// step is one fault of a plan.
type step struct {
	Kind kind
	At   time.Duration // since traffic began; later when the fault before it is not over
	Hold time.Duration // how long it lasts at least
	Draw uint64        // seeds the fault's own choices
}

// String is one line of --plan.
func (s step) String() string {
	return fmt.Sprintf("%7.1fs %-18s for %4.1fs  draw %016x", s.At.Seconds(), s.Kind.name, s.Hold.Seconds(), s.Draw)
}

// newPlan deals the kinds of fault like shuffled decks of cards: each comes equally often,
// in an order and at moments that the seed chooses.
func newPlan(o options) []step {
	deck := dealt(o)
	if len(deck) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(o.seed, 0x6368616f73)) // "chaos"
	var plan []step
	var hand []kind
	for slot := warmUp; slot+faultEvery/2 < o.length(); slot += faultEvery {
		if len(hand) == 0 {
			hand = slices.Clone(deck)
			rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
		}
		k := hand[0]
		hand = hand[1:]
		plan = append(plan, step{
			Kind: k, At: slot + time.Duration(rng.Int64N(int64(faultEvery/3))),
			Hold: k.hold[0] + time.Duration(rng.Int64N(int64(k.hold[1]-k.hold[0])+1)),
			Draw: rng.Uint64(),
		})
	}
	return plan
}

// dealt are the kinds that the options ask for.
func dealt(o options) []kind {
	all := kindsFor(o)
	switch o.only {
	case "":
		return all
	case noFaults:
		return nil
	}
	names := strings.Split(o.only, ",")
	return slices.DeleteFunc(all, func(k kind) bool { return !slices.Contains(names, k.name) })
}
