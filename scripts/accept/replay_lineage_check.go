package main

import (
	"context"
	"fmt"
	"strings"
)

// shownLetter is what a check asks of `dead-letters show`.
type shownLetter struct {
	ID, Status, Parent, Became string
	MessageID                  string `json:"message_id"`
	Replays                    int
	Children                   []shownLetter
	Events                     []struct{ Kind, Actor string }
}

// check walks a lineage from its first letter and compares it with what the consumer counted. It returns the replays.
func (r *replayLineage) check(ctx context.Context, l *lineage) (replays int, err error) {
	letters := 0
	for id := l.first; id != ""; {
		var shown shownLetter
		if err := r.letterVerb(ctx, &shown, "show", id); err != nil {
			return 0, err
		}
		r.Breaches.Check(shown.MessageID == l.id && shown.Replays == letters,
			"letter %s: message id %q, %d replays before, "+
				"want %s and %d", id, shown.MessageID, shown.Replays, l.id, letters)
		letters++
		for _, e := range shown.Events {
			if e.Kind == "replay" {
				replays++
			}
		}
		id = ""
		if len(shown.Children) > 0 {
			id = shown.Children[0].ID
		}
		r.Breaches.Check(len(shown.Children) <= 1, "letter %s has %d children", shown.ID, len(shown.Children))
	}
	r.mu.Lock()
	gaveUp, calls := r.gaveUp[l.id], r.calls[l.id]
	r.mu.Unlock()
	asNew := strings.Count(l.plan, string(editAsNew))
	what := "lineage " + l.plan + ": "
	r.Breaches.Equal(what+"letters, and times that the consumer gave up", letters, gaveUp)
	r.Breaches.Equal(what+"letters by its plan", letters,
		1+strings.Count(l.plan, string(sendAsIs))+strings.Count(l.plan, string(editBad)))
	r.Breaches.Equal(what+"replays by the history, and calls by the consumer", replays, calls+asNew-1)
	r.Breaches.Equal(what+"replays by its plan", replays, len(l.plan))
	for query, want := range map[string]int{
		"SELECT COUNT(*) FROM effects WHERE lineage = %d":                    1 + asNew,
		"SELECT COUNT(*) FROM effects WHERE lineage = %d AND message = '%s'": 1,
	} {
		if strings.Contains(query, "%s") {
			query = fmt.Sprintf(query, l.number, l.id)
		} else {
			query = fmt.Sprintf(query, l.number)
		}
		n, err := r.db.number(ctx, query)
		if err != nil {
			return replays, err
		}
		r.Breaches.Equal(what+"effects", n, want)
	}
	return replays, nil
}

// became compares what the groups of REPLAYED letters tell: each lineage ends handled, and all before it failed again.
func (r *replayLineage) became(ctx context.Context) error {
	var group struct {
		Became map[string]int
		Status string
	}
	if err := r.letterVerb(ctx, &group, "groups", "--status", "REPLAYED"); err != nil {
		return err
	}
	want := map[string]int{"handled": lineages, "failed-again": r.wantLetters - lineages}
	r.Breaches.Equal("what became of the replays", fmt.Sprint(group.Became), fmt.Sprint(want))
	return nil
}
