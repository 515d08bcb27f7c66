package settle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// failuresEvery is the time between two lines of one cause.
	failuresEvery = 10 * time.Second
	// maxCauses bounds what is told apart; what is beyond shares a line by code.
	maxCauses = 100
)

// failures logs failed sends. Equal ones are gathered: the first of a cause is a line at once,
// those that follow are one line each 10 s, with their count and one of them as the sample. The
// others are found by their id in the messages' history, and in the log at level debug. Safe for
// concurrent use.
type failures struct {
	log *slog.Logger

	mu     sync.Mutex
	causes map[failure]*gathered
}

// failure is what equal failed sends share.
type failure struct {
	service, exchange string
	code              model.CauseCode
	dead              bool
}

// gathered is what has not been told of one cause.
type gathered struct {
	count  int
	sample []any // the last one's fields
	timer  *time.Timer
}

func newFailures(log *slog.Logger) *failures {
	return &failures{log: log, causes: map[failure]*gathered{}}
}

// add tells of one failed send, or gathers it.
func (f *failures) add(r *Result, d Decision, met model.Settled) {
	row, o := r.Row, r.Outcome
	// A row that somebody else has since is not DEAD by this outcome.
	key := failure{row.Service, row.Exchange, o.Code, d.Status == model.Dead && met != model.SettledFenced}
	fields := []any{
		"id", row.ID, "key", row.MessageKey, "service", row.Service,
		"exchange", row.Exchange, "routing_key", row.RoutingKey,
		"outcome", o.Kind.String(), "code", string(o.Code), "cause", o.Code.Words(), "text", o.Text,
		"attempts", row.Attempts + d.AttemptsDelta, "status", string(d.Status),
		"lease_lost", met == model.SettledFenced,
	}
	if !key.dead {
		fields = append(fields, "retry_in", d.Delay)
	}
	level := slog.LevelDebug
	if f.first(key, fields) {
		level = slog.LevelWarn
	}
	if key.dead {
		f.log.Log(context.Background(), level, "message is DEAD", fields...)
	} else {
		f.log.Log(context.Background(), level, "send failed", fields...)
	}
}

// first reports whether nothing of this cause was told lately; else it gathers.
func (f *failures) first(key failure, fields []any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.causes[key] == nil && len(f.causes) >= maxCauses {
		key.service, key.exchange = "", ""
	}
	if g := f.causes[key]; g != nil {
		g.count++
		g.sample = fields
		return false
	}
	g := &gathered{}
	g.timer = time.AfterFunc(failuresEvery, func() { f.tell(key, g) })
	f.causes[key] = g
	return true
}

// tell writes the line of what was gathered, and forgets a cause of which there was nothing.
func (f *failures) tell(key failure, g *gathered) {
	f.mu.Lock()
	if f.causes[key] != g { // flushed
		f.mu.Unlock()
		return
	}
	line := g.line()
	if line == nil {
		delete(f.causes, key)
	} else {
		g.timer.Reset(failuresEvery)
	}
	f.mu.Unlock()
	if line != nil {
		f.warn(key, line)
	}
}

// line takes what was gathered; nil is nothing.
func (g *gathered) line() []any {
	if g.count == 0 {
		return nil
	}
	line := append([]any{"count", g.count}, g.sample...)
	g.count, g.sample = 0, nil
	return line
}

// flush writes all that was gathered, and stops the timers.
func (f *failures) flush() {
	f.mu.Lock()
	all := f.causes
	f.causes = map[failure]*gathered{}
	f.mu.Unlock()
	for key, g := range all {
		g.timer.Stop()
		if line := g.line(); line != nil { // nobody else has g any more
			f.warn(key, line)
		}
	}
}

// warn writes the line of several sends.
func (f *failures) warn(key failure, line []any) {
	if key.dead {
		f.log.Warn("messages are DEAD", line...)
		return
	}
	f.log.Warn("sends failed", line...)
}
