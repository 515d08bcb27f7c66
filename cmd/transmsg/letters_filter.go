package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
)

// letterFilterFlags restrict a verb to some of the dead letters.
type letterFilterFlags struct {
	f      model.LetterFilter
	status string
	fs     *pflag.FlagSet
}

// bind adds the flags; statuses says which statuses count without --status.
func (o *letterFilterFlags) bind(fs *pflag.FlagSet, statuses string) {
	o.fs = fs
	fs.StringVar(&o.status, "status", "", "OPEN, REPLAYED, PARKED or DISCARDED ("+statuses+")")
	fs.StringVar(&o.f.Service, "service", "", "only this service's")
	fs.StringVar(&o.f.Queue, "queue", "", "only those that the consumer of this queue gave up")
	fs.StringVar(&o.f.Cause, "cause", "", "only with this cause, such as permanent, exhausted or delivery_limit")
	fs.StringVar(&o.f.Exchange, "exchange", "", "only those that were published to this exchange")
	fs.StringVar(&o.f.RoutingKey, "routing-key", "", "only those that were published with this routing key")
	fs.StringVar(&o.f.Key, "key", "", "only with this business key")
	fs.StringVar(&o.f.WireID, "message-id", "", "only with this message `id`, as its publisher gave it")
	fs.StringVar(&o.f.Parent, "parent", "",
		"only those that came back after this dead letter, by its `id`, was replayed")
	fs.DurationVar(&o.f.OlderThan, "older-than", 0, "only stored at least this long ago")
}

// letterNarrowing are the flags that leave dead letters out; --status alone leaves too many in.
var letterNarrowing = []string{
	"service", "queue", "cause", "exchange", "routing-key", "key", "message-id", "parent", "older-than",
}

// filter checks the flags as [filterFlags.filter] does.
func (o *letterFilterFlags) filter() (model.LetterFilter, error) {
	o.f.Status = model.LetterStatus(strings.ToUpper(o.status))
	if o.f.Status != "" && !slices.Contains(model.LetterStatuses(), o.f.Status) {
		return o.f, usagef("--status %q must be OPEN, REPLAYED, PARKED or DISCARDED", o.status)
	}
	return o.f, checkFilter(o.fs, o.f.OlderThan, letterNarrowing)
}

// letterSelectionFlags name the dead letters of an operator's act.
type letterSelectionFlags struct {
	letterFilterFlags
	scope scopeFlags
}

func (o *letterSelectionFlags) bind(fs *pflag.FlagSet, statuses string) {
	o.letterFilterFlags.bind(fs, statuses)
	o.scope.bind(fs, deadLetter)
}

// selection checks flags and ids. With ids and a filter, both must match.
func (o *letterSelectionFlags) selection(ids []string) (model.LetterSelection, error) {
	sel := model.LetterSelection{IDs: ids, Max: o.scope.max}
	var err error
	if sel.Filter, err = o.filter(); err != nil {
		return sel, err
	}
	return sel, o.scope.check(ids, letterNarrowing, "", deadLetter, "--queue or --cause")
}

// waiting is a selection of what waits. Without ids it is about OPEN ones: PARKED ones have failed again after a
// replay, and are named one by one, or by --status.
func (o *letterSelectionFlags) waiting(ids []string, verb string) (model.LetterSelection, error) {
	sel, err := o.selection(ids)
	if err != nil {
		return sel, err
	}
	switch sel.Filter.Status {
	case model.LetterOpen, model.LetterParked:
	case "":
		if sel.Filter.Waiting = true; len(ids) == 0 {
			sel.Filter.Status = model.LetterOpen
		}
	default:
		return sel, usagef("--status %s: only OPEN and PARKED dead letters can be %s", sel.Filter.Status, verb)
	}
	return sel, nil
}
