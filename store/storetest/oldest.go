package storetest

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// testOldestOfTimed: the age of a service's READY rows counts from when each could be sent, so
// that rows which wait for their NotBefore, or waited for it, do not look old.
func testOldestOfTimed(t *testing.T, s Store) {
	at := now(t, s)
	ago := func(d time.Duration) int64 { return at - d.Milliseconds() }
	row := func(service string, created, notBefore int64) model.TransMessage {
		r := draft("timed").TransMessage
		r.Service, r.CreatedAt, r.UpdatedAt, r.NotBefore = service, created, created, notBefore
		r.NextAttemptAt = max(created, notBefore)
		return r
	}
	for _, c := range []struct {
		row  model.TransMessage
		want time.Duration
	}{
		{row(svc, ago(10*hour), at+hour.Milliseconds()), 0},
		{row(svc, ago(9*hour), ago(hour)), hour},
		{row(svc, ago(2*hour), 0), 2 * hour},
		{row(svc, ago(3*hour), ago(4*hour)), 3 * hour},
		{row("zz", ago(5*hour), 0), 5 * hour},
		{row("zz", ago(4*hour), at+hour.Milliseconds()), 5 * hour},
	} {
		if n, err := s.Import(bound(t), []model.TransMessage{c.row}, actor); err != nil || n != 1 {
			t.Fatalf("imported %d, %v", n, err)
		}
		for _, service := range []string{"", c.row.Service} {
			all, err := s.Stats(bound(t), service)
			if err != nil {
				t.Fatal(err)
			}
			got := all[len(all)-1]
			if off := got.OldestReady - c.want; got.Service != c.row.Service || off.Abs() > patience {
				t.Errorf("%s: oldest READY of %v, want %v", got.Service, got.OldestReady, c.want)
			}
			if got.Ahead != 0 {
				t.Errorf("%s: the clock looks %v behind", got.Service, got.Ahead)
			}
		}
	}
}
