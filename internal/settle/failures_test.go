package settle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// logLine is what the tests look at in a line.
type logLine struct {
	Level, Msg, ID, Code, Exchange, Status, Error string
	Count, Attempts                               int
	RetryIn                                       *int64 `json:"retry_in"`
}

func logLines(t *testing.T, log *logtest.Buffer) []logLine {
	t.Helper()
	var out []logLine
	for text := range strings.Lines(log.String()) {
		var l logLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		out = append(out, l)
	}
	return out
}

// TestS6_EqualFailuresAreGathered: of 200 messages to a missing queue, tried five times each, there
// are a line at once and one each ten seconds, which count all; another cause has lines of its own,
// and so has the transition to DEAD, which has no retry_in. The end tells what is left.
func TestS6_EqualFailuresAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, rounds = 200, 5
		var log logtest.Buffer
		ids := []string{"other"}
		for i := range rows {
			ids = append(ids, fmt.Sprint("row ", i))
		}
		s := newFakeStore(ids...)
		b := newBatcher(s, func(c *settle.Config) {
			c.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			c.Policy.MaxAttempts, c.Policy.MinDeadAge = rounds, model.None
		})
		for range rounds {
			for _, id := range ids[1:] {
				r := result(id, model.Returned, model.CodeNoRoute)
				r.Row = s.row(id)
				r.Row.Exchange = "ex"
				b.Add(r)
			}
			if err := b.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		b.Add(result("other", model.Refused, model.CodeNotFound))
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts, lines := map[string]int{}, logLines(t, &log)
		for _, l := range lines {
			counts[l.Msg+" "+l.Code] += max(1, l.Count)
			if dead := strings.HasSuffix(l.Msg, "DEAD"); dead != (l.RetryIn == nil) || l.Attempts == 0 || l.ID == "" {
				t.Errorf("line %+v, want attempts, an id, and retry_in unless the row is DEAD", l)
			}
		}
		want := map[string]int{
			"send failed 312": 1, "sends failed 312": rows*(rounds-1) - 1, "message is DEAD 312": 1,
			"messages are DEAD 312": rows - 1, "send failed 404": 1,
		}
		if fmt.Sprint(counts) != fmt.Sprint(want) || len(lines) != len(want) {
			t.Errorf("%d lines of %v, want %v", len(lines), counts, want)
		}
	})
}

// TestS6_ACauseThatGoesOnIsTold: one line each ten seconds while it goes on, and at once again
// after a pause. A thousand exchanges share lines.
func TestS6_ACauseThatGoesOnIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		s := newFakeStore("id")
		b := newBatcher(s, func(c *settle.Config) { c.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
		fail := func(exchange string) {
			r := result("id", model.Returned, model.CodeNoRoute)
			r.Row.Exchange = exchange
			b.Add(r)
			if err := b.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 60 {
			fail("ex")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		fail("ex")
		var got []string
		for _, l := range logLines(t, &log) {
			got = append(got, fmt.Sprint(l.Msg, " ", l.Count))
		}
		if len(got) < 6 || len(got) > 8 || got[0] != "send failed 0" || got[len(got)-1] != "send failed 0" {
			t.Errorf("lines %q in a minute and after a pause, want one each ten seconds, and a new one", got)
		}
		log.Reset()
		for i := range 1000 {
			fail(fmt.Sprint("ex", i))
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(logLines(t, &log)); n > 110 {
			t.Errorf("%d lines for a thousand exchanges", n)
		}
	})
}

// brokenDelete fails its first deletes, each with an error of its own.
type brokenDelete struct {
	*fakeStore
	errs []error
}

func (s *brokenDelete) Delete(ctx context.Context, keys []model.RowKey) (int, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return 0, err
	}
	return s.fakeStore.Delete(ctx, keys)
}

// TestS6_FailedWritesAreGathered: a database that is down for a minute fails a write each second,
// which are a line at once and one each ten seconds; another error is told at once. Ports differ
// from time to time and make no other error.
func TestS6_FailedWritesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = 40
		var log logtest.Buffer
		s := &brokenDelete{fakeStore: newFakeStore("id")}
		for i := range 2 * each {
			err := errDown
			if i >= each {
				err = fmt.Errorf("read tcp 127.0.0.1:%d: reset", 40000+i)
			}
			s.errs = append(s.errs, err)
		}
		b := newBatcher(s.fakeStore, func(c *settle.Config) {
			c.Store, c.Logger = s, slog.New(slog.NewJSONHandler(&log, nil))
		})
		b.Add(result("id", model.Acked, ""))
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		counted, lines := map[string]int{}, map[string]int{}
		for _, l := range logLines(t, &log) {
			cause := strings.Fields(l.Error)[0]
			if lines[cause]++; lines[cause] == 1 && l.Count != 0 {
				t.Errorf("the first line of %s counts %d, want one that is told at once", cause, l.Count)
			}
			counted[cause] += max(1, l.Count)
		}
		if want := map[string]int{"database": each, "read": each}; !maps.Equal(counted, want) {
			t.Errorf("the lines count %v, want %v", counted, want)
		}
		if lines["database"] < 3 || lines["database"] > 6 || lines["read"] < 3 || lines["read"] > 6 {
			t.Errorf("%v lines in some 40 s each, want one each 10 s", lines)
		}
	})
}
