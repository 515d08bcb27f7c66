package gormstore_test

import (
	"errors"
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestA4_NotChangedWhileItsSendMayBeOut: the end of a lease is not the end of the send. A row
// that its sender has not settled is neither edited nor discarded until two minutes later.
func TestA4_NotChangedWhileItsSendMayBeOut(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		d := batch(1)
		d[0].Delay, d[0].ClaimedBy = 0, "sender" // its lease has ended
		if _, err := s.Insert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		body := []byte("corrected")
		edit := func() error {
			return s.Edit(t.Context(), d[0].ID, model.Edit{Body: &body, Actor: "operator"})
		}
		shift := func(ms string) {
			_, err := s.Pool().ExecContext(t.Context(),
				"UPDATE trans_message SET next_attempt_at = next_attempt_at - "+ms)
			if err != nil {
				t.Fatal(err)
			}
		}
		shift("60000")
		if err := edit(); !errors.Is(err, model.ErrLeased) {
			t.Errorf("edit a minute after the lease: %v, want ErrLeased", err)
		}
		n, err := s.Discard(t.Context(), model.OperatorAct{
			Selection: model.Selection{IDs: []string{d[0].ID}, Filter: model.Filter{Status: model.Ready}},
			Actor:     "operator",
		})
		if n != 0 || err != nil || present(t, s, d...) != 1 {
			t.Errorf("discard a minute after the lease: %d, %v, want the row left alone", n, err)
		}
		shift("180000")
		if err := edit(); err != nil {
			t.Errorf("edit four minutes after the lease: %v", err)
		}
	})
}
