package gormstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

func benchDraft(body []byte) model.Draft {
	m := model.Message{
		ID: model.NewID(), Exchange: "ex", RoutingKey: "orders.created", Body: body,
		Properties: model.Properties{ContentType: "application/json"},
	}
	return model.Draft{TransMessage: model.NewTransMessage("orders", &m, false), Delay: 30e9}
}

// BenchmarkInsertDelete has callers insert one row each time and a batcher delete them
// 500 at a time: the store's share of a confirmed message.
func BenchmarkInsertDelete(b *testing.B) {
	body := []byte(strings.Repeat("x", 1024))
	for _, server := range servers {
		for _, callers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d", server.name, callers), func(b *testing.B) {
				s, err := anystore.Open(b.Context(), server.dsn(b), gormstore.Options{SkipSchemaCheck: true})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if _, err := migrations.Up(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				insertAndDelete(b, s, callers, body)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func insertAndDelete(b *testing.B, s *gormstore.Store, callers int, body []byte) {
	acked := make(chan model.RowKey, 4096)
	var next atomic.Int64
	var wg, del sync.WaitGroup
	del.Go(func() {
		keys := make([]model.RowKey, 0, 500)
		for k := range acked {
			if keys = append(keys, k); len(keys) == cap(keys) || len(acked) == 0 && len(keys) > 200 {
				if _, err := s.Delete(context.Background(), keys); err != nil {
					b.Error(err)
				}
				keys = keys[:0]
			}
		}
		if _, err := s.Delete(context.Background(), keys); err != nil {
			b.Error(err)
		}
	})
	for range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				d := benchDraft(body)
				if _, err := s.Insert(context.Background(), []model.Draft{d}); err != nil {
					b.Error(err)
					return
				}
				acked <- model.RowKey{ID: d.ID}
			}
		})
	}
	wg.Wait()
	close(acked)
	del.Wait()
}

// BenchmarkDelete deletes rows 500 at a time, as the batcher does with what was acked: of one epoch,
// as the ids of one publisher are, and each of an epoch of its own. The INSERTs between are not
// counted.
func BenchmarkDelete(b *testing.B) {
	const rows = 500
	body := []byte(strings.Repeat("x", 1024))
	for _, server := range servers {
		for name, spread := range map[string]int{"shared": 0, "own": 1} {
			b.Run(server.name+"/"+name, func(b *testing.B) {
				s, err := anystore.Open(b.Context(), server.dsn(b), gormstore.Options{SkipSchemaCheck: true})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if _, err := migrations.Up(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				var took time.Duration
				for done := 0; done < b.N; done += rows {
					list, keys := make([]model.Draft, rows), make([]model.RowKey, rows)
					first := model.NewEpoch()
					for i := range list {
						list[i] = benchDraft(body)
						list[i].Epoch = first + i*spread
						keys[i] = model.RowKey{ID: list[i].ID, Epoch: list[i].Epoch}
					}
					if _, err := s.Insert(b.Context(), list); err != nil {
						b.Fatal(err)
					}
					begin := time.Now()
					if n, err := s.Delete(b.Context(), keys); err != nil || n != rows {
						b.Fatalf("%d of %d rows deleted: %v", n, rows, err)
					}
					took += time.Since(begin)
				}
				n := (b.N + rows - 1) / rows * rows
				b.ReportMetric(float64(n)/took.Seconds(), "deletes/s")
			})
		}
	}
}

// BenchmarkRaw is the limit: one connection inserts and deletes rows of one multi-row
// statement, with nothing around it.
func BenchmarkRaw(b *testing.B) {
	body := []byte(strings.Repeat("x", 1024))
	for _, server := range servers {
		for _, rows := range []int{1, 10, 50, 100, 250, 500} {
			b.Run(fmt.Sprintf("%s/%d", server.name, rows), func(b *testing.B) {
				s, err := anystore.Open(b.Context(), server.dsn(b), gormstore.Options{SkipSchemaCheck: true})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if _, err := migrations.Up(b.Context(), s); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += rows {
					list := make([]model.Draft, rows)
					keys := make([]model.RowKey, rows)
					for i := range list {
						list[i] = benchDraft(body)
						keys[i].ID = list[i].ID
					}
					if _, err := s.Insert(b.Context(), list); err != nil {
						b.Fatal(err)
					}
					if _, err := s.Delete(b.Context(), keys); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// BenchmarkInsertStatement compares forms of the shared INSERT of 128 rows on MariaDB: the
// clock in each of a row's three times or once, as a text or prepared.
func BenchmarkInsertStatement(b *testing.B) {
	const rows = 128
	body := []byte(strings.Repeat("x", 1024))
	s, err := anystore.Open(b.Context(), servers[0].dsn(b), gormstore.Options{SkipSchemaCheck: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if _, err := migrations.Up(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	conn, err := s.Pool().Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	once, now := s.InsertText(rows)
	each := strings.ReplaceAll(once, "created_at,created_at+?", now+","+now+"+?")
	if each == once {
		b.Fatal("the text does not take the clock once")
	}
	prepared, err := conn.PrepareContext(b.Context(), once)
	if err != nil {
		b.Fatal(err)
	}
	defer prepared.Close()
	text := func(query string) func(context.Context, ...any) (sql.Result, error) {
		return func(ctx context.Context, args ...any) (sql.Result, error) {
			return conn.ExecContext(ctx, query, args...)
		}
	}
	for name, exec := range map[string]func(context.Context, ...any) (sql.Result, error){
		"clock-thrice-text": text(each), "clock-once-text": text(once), "clock-once-prepared": prepared.ExecContext,
	} {
		b.Run(name, func(b *testing.B) {
			for done := 0; done < b.N; done += rows {
				b.StopTimer()
				drafts := make([]*model.Draft, rows)
				for i := range drafts {
					d := benchDraft(body)
					drafts[i] = &d
				}
				args := s.InsertArgs(drafts)
				b.StartTimer()
				if _, err := exec(b.Context(), args...); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if _, err := conn.ExecContext(b.Context(), "TRUNCATE trans_message"); err != nil {
				b.Fatal(err)
			}
		})
	}
}
