package model_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// A NotBefore of any size becomes an instant that is not earlier, or is refused.
func TestD2_NotBeforeIsNeverEarlier(t *testing.T) {
	t.Parallel()
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	tests := []struct {
		name    string
		at      time.Time
		want    int64
		refused bool
	}{
		{name: "none"},
		{name: "a part of a millisecond", at: time.Unix(1_790_000_000, 1), want: 1_790_000_000_001},
		{name: "before 1970", at: time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), want: 1},
		{name: "the epoch", at: time.Unix(0, 0), want: 1},
		{name: "the year 9999", at: end, want: end.UnixMilli()},
		{name: "the year 10000", at: end.Add(time.Second), refused: true},
		{name: "the last time there is", at: time.Unix(math.MaxInt64/2, 0), refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := model.Message{Exchange: "ex", NotBefore: tt.at}
			norm, err := model.Normalize(m, time.Now(), model.Limits{})
			if tt.refused {
				if !errors.Is(err, model.ErrInvalid) {
					t.Errorf("got %v, want it refused", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if row := model.NewTransMessage("orders", &norm, false); row.NotBefore != tt.want {
				t.Errorf("got %d, want %d", row.NotBefore, tt.want)
			}
		})
	}
}
