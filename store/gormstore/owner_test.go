package gormstore_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestClaimChangesNoRowsSize: on MySQL the name of who holds a row is as long before a
// claim, under it and after it, and is read back as it was given.
func TestClaimChangesNoRowsSize(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{})
	look := func(step, owner string) {
		t.Helper()
		var length, nobody int
		err := s.Pool().QueryRowContext(t.Context(), "SELECT LENGTH(claimed_by), claimed_by = '' FROM trans_message").
			Scan(&length, &nobody)
		if err != nil || length != 40 || (nobody == 1) != (owner == "") {
			t.Errorf("%s: %d bytes, nobody %d, %v; want 40 bytes for %q", step, length, nobody, err, owner)
		}
	}
	d := benchDraft(nil)
	d.Delay, d.ClaimedBy = 0, ""
	if _, err := s.Insert(t.Context(), []model.Draft{d}); err != nil {
		t.Fatal(err)
	}
	look("stored", "")
	claim := model.Claim{Service: d.Service, Owner: "pod-7 ä", Lease: time.Minute, MaxRows: 5, MaxBytes: 1 << 20}
	got, err := s.Claim(t.Context(), claim)
	if err != nil || len(got.Rows) != 1 || got.Rows[0].ClaimedBy != claim.Owner {
		t.Fatalf("claimed %+v, %v, want one row of %q", got.Rows, err, claim.Owner)
	}
	look("claimed", claim.Owner)
	_, err = s.Settle(t.Context(), []model.Settlement{{
		ID: d.ID, Version: 1, Status: model.Ready,
		Outcome: model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent},
	}})
	if err != nil {
		t.Fatal(err)
	}
	look("handed back", "")
}
