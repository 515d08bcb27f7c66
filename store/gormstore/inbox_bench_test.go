package gormstore_test

import (
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// BenchmarkInboxIndex has 8 handlers write one record in a transaction each, with the index that the purge reads and
// without it. Then a purge looks for old records and finds none.
func BenchmarkInboxIndex(b *testing.B) {
	drop := map[string]string{
		"mysql": "DROP INDEX trans_inbox_done ON trans_inbox", "postgres": "DROP INDEX trans_inbox_done",
	}
	for _, server := range servers[:2] {
		for _, name := range []string{"with", "without"} {
			b.Run(server.name+"/"+name, func(b *testing.B) {
				dsn := server.dsn(b)
				s, err := anystore.Open(b.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if _, err := migrations.Up(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				db := servicePool(b, server.name, dsn)
				if name == "without" {
					if _, err := db.ExecContext(b.Context(), drop[s.Dialect()]); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				writeRecords(b, s, db, b.N)
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
				begin := time.Now()
				if _, err := s.PurgeInbox(b.Context(), time.Hour, 500); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(begin).Microseconds()), "us/purge")
			})
		}
	}
}

// writeRecords writes n records, in transactions of one each.
func writeRecords(b *testing.B, s *gormstore.Store, db *sql.DB, n int) {
	const handlers = 8
	var wg sync.WaitGroup
	for i := range handlers {
		wg.Go(func() {
			for j := i; j < n; j += handlers {
				tx, err := db.BeginTx(b.Context(), nil)
				if err != nil {
					b.Error(err)
					return
				}
				first, err := s.RecordTx(b.Context(), tx, inboxRecord(model.NewID()), time.Second)
				if err != nil || !first {
					b.Errorf("first %t, %v", first, err)
				}
				if err := tx.Commit(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
