package gormstore_test

import (
	"testing"

	"github.com/transmsg/transmsg/store/gormstore"
)

// TestClaimChangesNoRowsSize: on MySQL the name of who holds a row takes the same bytes
// whatever it is. Of a VARCHAR each claim would write the whole row anew, with its body.
func TestClaimChangesNoRowsSize(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{})
	var kind string
	err := s.Pool().QueryRowContext(t.Context(), "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE "+
		"TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'trans_message' AND COLUMN_NAME = 'claimed_by'").Scan(&kind)
	if err != nil || kind != "char(64)" {
		t.Errorf("claimed_by is %q, %v, want char(64)", kind, err)
	}
}
