package main

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
)

// filterFlags restrict a verb to some of the stored messages.
type filterFlags struct {
	f            model.Filter
	status, code string
	fs           *pflag.FlagSet
}

// bind adds the flags; statuses says which statuses count without --status.
func (o *filterFlags) bind(fs *pflag.FlagSet, statuses string) {
	o.fs = fs
	fs.StringVar(&o.status, "status", "", "READY or DEAD ("+statuses+")")
	fs.StringVar(&o.f.Service, "service", "", "only this service's")
	fs.StringVar(&o.f.Exchange, "exchange", "", "only to this exchange")
	fs.StringVar(&o.f.RoutingKey, "routing-key", "", "only with this routing key")
	fs.StringVar(&o.f.Key, "key", "", "only with this business key")
	fs.StringVar(&o.code, "code", "", "only with this last cause, such as 312, 404 or nack")
	fs.BoolVar(&o.f.Exhausted, "exhausted", false, "only READY ones whose attempts are used up")
	fs.DurationVar(&o.f.OlderThan, "older-than", 0, "only stored at least this long ago")
}

// narrowing are the flags that leave messages out; --status alone leaves too many in.
var narrowing = []string{"service", "exchange", "routing-key", "key", "code", "older-than"}

// filter checks the flags. A filter given as an empty text is refused: it is most likely a
// shell variable that is not set, and would select everything.
func (o *filterFlags) filter() (model.Filter, error) {
	switch o.f.Status = model.Status(strings.ToUpper(o.status)); o.f.Status {
	case "", model.Ready, model.Dead:
	default:
		return o.f, usagef("--status %q must be READY or DEAD", o.status)
	}
	if o.f.Exhausted && o.f.Status == model.Dead {
		return o.f, usagef("--exhausted and --status %s: only READY messages are exhausted", o.status)
	}
	if o.f.Exhausted {
		o.f.Status = model.Ready
	}
	o.f.Code = model.CauseCode(o.code)
	return o.f, checkFilter(o.fs, o.f.OlderThan, narrowing)
}

// checkFilter refuses what a filter's flags cannot mean.
func checkFilter(fs *pflag.FlagSet, olderThan time.Duration, names []string) error {
	for _, name := range append([]string{"status"}, names...) {
		if flag := fs.Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usagef("--%s is empty: give a value, or leave the flag out to select any", name)
		}
	}
	if fs.Changed("older-than") {
		return positive("older-than", olderThan)
	}
	return nil
}

// scopeFlags say how much an act is about.
type scopeFlags struct {
	all bool
	max int
	fs  *pflag.FlagSet
}

func (o *scopeFlags) bind(fs *pflag.FlagSet, noun string) {
	o.fs = fs
	fs.BoolVar(&o.all, "all", false, "every "+noun+" of the status; needed where neither ids nor a filter are given")
	fs.IntVar(&o.max, "max", model.DefaultActRows,
		fmt.Sprintf("at most this many in one call, 1 to %d", model.MaxActRows))
}

// check refuses a scope that is none, or two. names are the flags that narrow it, narrowed one that was given besides.
func (o *scopeFlags) check(ids, names []string, narrowed, noun, example string) error {
	for _, name := range names {
		if o.fs.Changed(name) {
			narrowed = cmp.Or(narrowed, "--"+name)
		}
	}
	for _, id := range ids {
		if strings.TrimSpace(id) == "" {
			return usagef("an id is empty")
		}
	}
	switch {
	case o.max < 1 || o.max > model.MaxActRows:
		return usagef("--max %d must be 1 to %d", o.max, model.MaxActRows)
	case o.all && len(ids) > 0:
		return usagef("--all and ids: give one of them")
	case o.all && narrowed != "":
		return usagef("--all and %s: give one of them", narrowed)
	case !o.all && len(ids) == 0 && narrowed == "":
		return usagef("which %ss? Give ids, a filter such as %s, or --all", noun, example)
	}
	return nil
}

// selectionFlags name the messages of an operator's act.
type selectionFlags struct {
	filterFlags
	scope scopeFlags
}

func (o *selectionFlags) bind(fs *pflag.FlagSet, statuses string) {
	o.filterFlags.bind(fs, statuses)
	o.scope.bind(fs, message)
}

// selection checks flags and ids. With ids and a filter, both must match.
func (o *selectionFlags) selection(ids []string) (model.Selection, error) {
	sel := model.Selection{IDs: ids, Max: o.scope.max}
	var err error
	if sel.Filter, err = o.filter(); err != nil {
		return sel, err
	}
	narrowed := ""
	if o.f.Exhausted { // given as false it narrows nothing
		narrowed = "--exhausted"
	}
	return sel, o.scope.check(ids, narrowing, narrowed, message, "--service or --code")
}

// actorFlags say who acts, for the messages' history.
type actorFlags struct{ actor string }

const maxActor = 64 // bytes in the history

func (o *actorFlags) bind(fs *pflag.FlagSet) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.actor, "actor", "", "who acts, kept in the history, at most 64 bytes (default user@host)")
	fs.AddFlagSet(settings(set))
}

// name returns the actor, from the operating system where none was given.
func (o *actorFlags) name() (string, error) {
	if len(o.actor) > maxActor {
		return "", usagef("--actor %q has %d bytes, the limit is %d", o.actor, len(o.actor), maxActor)
	}
	if o.actor != "" {
		return o.actor, nil
	}
	who, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil { // without a line in /etc/passwd there is a number
		who = u.Username
	} else if uid := os.Getuid(); uid >= 0 {
		who = fmt.Sprint(uid)
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	name := strings.ToValidUTF8(who+"@"+host, "")
	if len(name) > maxActor {
		name = strings.ToValidUTF8(name[:maxActor], "")
	}
	return name, nil
}

// messageID is the argument of a verb on one message.
func messageID(args []string) error {
	if len(args) != 1 {
		return usagef("needs one message id, got %d arguments", len(args))
	}
	return nil
}

// ago is a time for people: how long before now.
func ago(at, now int64) string {
	return rough(model.MillisToDuration(now-at)) + " ago"
}
