package settle

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// failures logs failed sends and failed writes, equal ones gathered. Of the sends that share a line
// the others are found by their id in the messages' history, and in the log at level debug. Safe
// for concurrent use.
type failures struct {
	log    *slog.Logger
	sends  *repeats[failure]
	writes *repeats[failedWrite]
}

// failure is what equal failed sends share.
type failure struct {
	service, exchange string
	code              model.CauseCode
	dead              bool
}

// failedWrite is what equal failed writes share.
type failedWrite struct{ op, cause string }

func newFailures(log *slog.Logger) *failures {
	return &failures{
		log: log,
		sends: newRepeats(
			func(f failure) failure { return failure{code: f.code, dead: f.dead} },
			func(f failure, line []any) {
				if f.dead {
					log.Warn("messages are DEAD", line...)
					return
				}
				log.Warn("sends failed", line...)
			},
		),
		writes: newRepeats(
			func(w failedWrite) failedWrite { return failedWrite{op: w.op} },
			func(_ failedWrite, line []any) { log.Warn("write outcomes", line...) },
		),
	}
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
	if f.sends.first(key, fields) {
		level = slog.LevelWarn
	}
	if key.dead {
		f.log.Log(context.Background(), level, "message is DEAD", fields...)
	} else {
		f.log.Log(context.Background(), level, "send failed", fields...)
	}
}

// addWrite tells of one failed write, or gathers it: a database that is down fails one a second.
func (f *failures) addWrite(op string, rows int, err error) {
	fields := []any{"op", op, "rows", rows, "error", err}
	level := slog.LevelDebug
	if f.writes.first(failedWrite{op, kindOfError(err)}, fields) {
		level = slog.LevelWarn
	}
	f.log.Log(context.Background(), level, "write outcomes", fields...)
}

// kindOfError is an error's text without what differs from time to time: ids and ports.
func kindOfError(err error) string {
	var locked *model.BusyError
	if errors.As(err, &locked) {
		return "locked"
	}
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, err.Error())
}

// flush writes all that was gathered, and stops the timers.
func (f *failures) flush() {
	f.sends.flush()
	f.writes.flush()
}
