package main

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// maxRefused bounds the refused letters that people are told of one by one.
const maxRefused = 10

// replayRows are the dead letters of a replay.
type replayRows struct {
	letterRows
	how       model.LetterReplay
	retention time.Duration // of inbox records; 0 is for ever
	stuck     int           // by a look: those that match and cannot be sent again as they are
	refused   []model.LetterRefusal
}

func (l *replayRows) look(ctx context.Context, s *gormstore.Store, r *reaches) (seen, error) {
	all, err := s.SelectLetters(ctx, l.sel, 0)
	if err != nil {
		return nil, err
	}
	l.sel.Filter.Replayable = true
	found, err := l.lookAt(ctx, s, l.retention)
	if err != nil {
		return nil, err
	}
	l.others = all.Others // without those that cannot be replayed, which are told apart
	l.stuck = all.Rows - found.Rows
	found.stuck, found.Others = l.stuck, all.Others
	found.warnings = l.warnings(found)
	if l.how.ToExchange {
		found.routes, found.moreRoutes = letterReach(ctx, s, r, found.Routes)
	}
	return found, nil
}

// letterReach says where letters would go through their exchanges.
func letterReach(
	ctx context.Context, s *gormstore.Store, r *reaches, routes []model.LetterRoute,
) (list []jsonReach, more bool) {
	list = []jsonReach{}
	for _, route := range routes[:min(len(routes), previewGroups)] {
		if route.Exchange != "" {
			list = append(list, r.route(ctx, route.Exchange, route.RoutingKey, route.SampleID, letterHeaders(s)))
		}
	}
	return list, len(routes) > previewGroups
}

// letterHeaders are those of dead letters.
func letterHeaders(s *gormstore.Store) headersOf {
	return func(ctx context.Context, id string) (map[string]any, error) {
		l, _, _, err := s.Letter(ctx, id)
		return l.Properties.View().Headers, err
	}
}

func (l *replayRows) warnings(found *lettersSeen) (out []string) {
	if l.how.ToExchange {
		out = append(out, "through the exchange every queue that is bound for the routing key gets a copy, also those "+
			"whose consumers have dealt with the message")
	}
	if l.how.AsNew {
		out = append(out, "with new ids every consumer deals with the messages once more, also one that has done so")
	}
	if found.Old > 0 && !l.how.AsNew {
		out = append(out,
			fmt.Sprintf("%s first failed longer ago than inbox records are kept (%s): a consumer that has "+
				"dealt with such a message may do so again", counted(found.Old, deadLetter), l.retention))
	}
	return out
}

func (l *replayRows) do(
	ctx context.Context, s *gormstore.Store, actor, reason string, progress func(int),
) (n int, err error) {
	n, l.refused, err = s.ReplayLetters(ctx, l.what(actor, reason, progress), l.how)
	return n, err
}

func (l *replayRows) result(do *act, n int, more bool, actor, reason string, found seen) any {
	out := jsonLetterAct{do.verb, true, n, more, actor, reason, found.(*lettersSeen).routes, []jsonRefusal{}}
	for _, r := range l.refused {
		out.Refused = append(out.Refused, jsonRefusal(r))
	}
	return out
}

func (l *replayRows) notes(n int) []string {
	var notes []string
	if l.stuck > 0 {
		notes = append(notes, stuck(l.stuck))
	}
	for _, r := range l.refused[:min(len(l.refused), maxRefused)] {
		notes = append(notes, fmt.Sprintf("%s was not sent back: %s", r.ID, readable(r.Why)))
	}
	if more := len(l.refused) - maxRefused; more > 0 {
		notes = append(notes, fmt.Sprintf("%d more were not sent back", more))
	}
	notes = append(notes, otherLetters(l.others, n+len(l.refused)+l.stuck, len(l.sel.IDs))...)
	if n > 0 {
		notes = append(notes, "what becomes of them: transmsg dead-letters groups --status REPLAYED")
	}
	return notes
}

// stuck says of letters that they cannot be sent again.
func stuck(n int) string {
	return counted(n, deadLetter) + " cannot be sent again as it came; transmsg dead-letters list says why"
}
