package gormstore_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// foreign is a row whose texts and bodies no narrow character set has.
func foreign() model.Draft {
	d := benchDraft([]byte("\x00\xff größe 🚀 \\' \xbf\x5c"))
	d.Service, d.MessageKey, d.Exchange, d.RoutingKey = "dienst-ü", "schlüssel €", "größe 🚀", "k.ж"
	d.Properties, d.ClaimedBy = []byte("{\"ü\":\"🚀\"}"), "instanz-ß"
	return d
}

// wantRow says what of a stored row is another than what was given.
func wantRow(t *testing.T, s *gormstore.Store, how string, want *model.Draft) {
	t.Helper()
	got, _, err := s.Show(t.Context(), want.ID)
	if err != nil {
		t.Errorf("%s: %v", how, err)
		return
	}
	if got.Service != want.Service || !model.SameContent(&got, &want.TransMessage) ||
		got.ClaimedBy != want.ClaimedBy {
		t.Errorf("%s: stored %q %q %q %q %q %q %q", how, got.Service, got.MessageKey, got.Exchange, got.RoutingKey,
			got.Properties, got.Payload, got.ClaimedBy)
	}
}

// TestT1_NoSessionAltersWhatIsStored: a caller's connection may speak any character set.
func TestT1_NoSessionAltersWhatIsStored(t *testing.T) {
	t.Parallel()
	sessions := map[string][]string{
		"mysql": {
			"SET NAMES latin1", "SET NAMES utf8mb3", "SET NAMES ascii", "SET CHARACTER SET latin1",
			"SET NAMES gbk", "SET SESSION character_set_client = cp1251",
			"SET SESSION collation_connection = latin1_bin",
		},
		"postgres": {
			"SET client_encoding = 'LATIN1'", "SET client_encoding = 'WIN1251'", "SET client_encoding = 'SQL_ASCII'",
		},
		"sqlite": {"PRAGMA encoding = 'UTF-16le'"},
	}
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		for _, prepare := range []bool{false, true} {
			for _, session := range sessions[s.Dialect()] {
				for _, lax := range []bool{false, true} {
					if lax && s.Dialect() != "mysql" {
						continue
					}
					db := rawPool(t, viaGorm(t, s, dsn, prepare))
					db.SetMaxOpenConns(1)
					exec(t, db, session)
					if lax {
						exec(t, db, "SET SESSION sql_mode = ''")
					}
					rows := []model.Draft{foreign(), benchDraft(nil), foreign()}
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Fatal(err)
					}
					if err := insertTx(t, s, tx, rows...); err != nil {
						t.Errorf("%s, lax %v: %v", session, lax, err)
					}
					if err := tx.Commit(); err != nil {
						t.Fatal(err)
					}
					for i := range rows {
						wantRow(t, s, session, &rows[i])
					}
				}
			}
		}
	})
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// TestT1_OwnPoolSpeaksUTF8 whatever its DSN says.
func TestT1_OwnPoolSpeaksUTF8(t *testing.T) {
	t.Parallel()
	for dsn, param := range map[string]string{
		servers[0].dsn(t): "?charset=latin1", servers[1].dsn(t): "&client_encoding=LATIN1",
	} {
		s := migrated(t, dsn+param, gormstore.Options{})
		rows := []model.Draft{foreign(), foreign()}
		if _, err := s.Insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			wantRow(t, s, param, &rows[i])
		}
	}
}

// TestT1_CallersPoolOfAnotherCharacterSetIsRefused by the name of its setting: what the store reads
// there would be altered on the way.
func TestT1_CallersPoolOfAnotherCharacterSetIsRefused(t *testing.T) {
	t.Parallel()
	my, pg := servers[0].dsn(t), servers[1].dsn(t)
	migrated(t, my, gormstore.Options{})
	migrated(t, pg, gormstore.Options{})
	for _, param := range []string{"?charset=latin1", "?charset=utf8", "?character_set_results=latin1"} {
		_, err := onPool(t.Context(), callersPool(t, gormmysql.Open(my+param)), gormstore.Options{})
		if err == nil || !strings.Contains(err.Error(), "character_set_") || !strings.Contains(err.Error(), "utf8mb4") {
			t.Errorf("%s: %v, want refused by the variable's name", param, err)
		}
	}
	_, err := onPool(t.Context(), callersPool(t, gormpostgres.Open(pg+"&client_encoding=LATIN1")), gormstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "client_encoding") {
		t.Errorf("LATIN1: %v, want refused by the setting's name", err)
	}
	for _, d := range []string{my, my + "?charset=utf8mb4"} {
		s, err := onPool(t.Context(), callersPool(t, gormmysql.Open(d)), gormstore.Options{})
		if err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		t.Cleanup(func() { _ = s.Close() })
		row := foreign()
		if _, err := s.Insert(context.WithoutCancel(t.Context()), []model.Draft{row}); err != nil {
			t.Error(err)
		}
		wantRow(t, s, "a caller's pool", &row)
	}
}
