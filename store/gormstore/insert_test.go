package gormstore_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestBadRowsSpareTheirNeighbours: rows that no server takes fail alone, whatever they
// are stored together with.
func TestBadRowsSpareTheirNeighbours(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		if s.Dialect() == "sqlite" {
			return // has no length limits and takes any bytes
		}
		var wg sync.WaitGroup
		for i := range 60 {
			d := benchDraft(nil)
			bad := i%10 == 3
			if bad {
				d.Exchange = strings.Repeat("x", 300)
			}
			wg.Go(func() {
				got, err := s.Insert(t.Context(), []model.Draft{d})
				switch {
				case bad && !errors.Is(err, model.ErrNotStored):
					t.Errorf("bad row: got %v, %v, want ErrNotStored", got, err)
				case !bad && (err != nil || got[0] != model.StoredNew):
					t.Errorf("good row: got %v, %v", got, err)
				}
			})
		}
		wg.Wait()
		if got, err := s.List(t.Context(), model.Filter{}); err != nil || len(got) != 54 {
			t.Errorf("%d rows, %v, want the 54 good ones", len(got), err)
		}
	})
}

// TestBadRowLeavesNothingOfItsBatch: all or none, below and above one statement.
func TestBadRowLeavesNothingOfItsBatch(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		if s.Dialect() == "sqlite" {
			return
		}
		for _, n := range []int{3, 700} {
			rows := batch(n)
			rows[n-1].Service = strings.Repeat("x", 65)
			_, err := s.Insert(t.Context(), rows)
			if !errors.Is(err, model.ErrNotStored) || present(t, s, rows[:500%n]...) != 0 {
				t.Errorf("%d rows: got %v and %d rows stored", n, err, present(t, s, rows[:500%n]...))
			}
		}
	})
}

// TestC19_TooLargeForTheServer: a typed error, no row, and a pool that goes on.
func TestC19_TooLargeForTheServer(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{})
	d := benchDraft(make([]byte, s.MaxBody()+1))
	for range 3 {
		if _, err := s.Insert(t.Context(), []model.Draft{d}); !errors.Is(err, model.ErrNotStored) ||
			!strings.Contains(err.Error(), "max_allowed_packet") {
			t.Errorf("got %v, want ErrNotStored that names max_allowed_packet", err)
		}
		if _, err := s.Insert(t.Context(), batch(1)); err != nil {
			t.Errorf("the next insert: %v", err)
		}
	}
	if present(t, s, d) != 0 {
		t.Error("the row exists")
	}
}

// TestConcurrentBatchesWithSharedIDs: batches that overlap in any order end with one
// row each id and no error.
func TestConcurrentBatchesWithSharedIDs(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		// Two stores, so that duplicates also meet between processes.
		stores := []*gormstore.Store{migrated(t, dsn, gormstore.Options{}), migrated(t, dsn, gormstore.Options{})}
		rows := batch(40)
		var mu sync.Mutex
		count := map[model.Stored]int{}
		var wg sync.WaitGroup
		for i := range 24 {
			mine := append(append([]model.Draft{}, rows[i:]...), rows[:i]...)
			s := stores[i%2]
			wg.Go(func() {
				got, err := s.Insert(t.Context(), mine)
				if err != nil {
					t.Errorf("insert: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, f := range got {
					count[f]++
				}
			})
		}
		wg.Wait()
		if count[model.StoredNew] != 40 || count[model.StoredBefore] != 23*40 {
			t.Errorf("got %v, want 40 new and %d before", count, 23*40)
		}
	})
}

// TestRestoreLeavesDiscardedRows: what an operator discarded stays away, unless it was
// stored again since.
func TestRestoreLeavesDiscardedRows(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		d := benchDraft([]byte("x"))
		_, err := s.Pool().ExecContext(t.Context(), "INSERT INTO trans_message_event (row_id, at, kind) "+
			"VALUES ('"+d.ID+"', 1000, 'discard')")
		if err != nil {
			t.Fatal(err)
		}
		list := []model.Settlement{{ID: d.ID, Status: model.Ready, Outcome: model.Outcome{Kind: model.Returned}}}
		for createdAt, want := range map[int64]bool{0: false, 999: false, 1001: true} {
			row := d.TransMessage
			row.CreatedAt = createdAt
			got, err := s.Restore(t.Context(), []model.TransMessage{row}, list)
			if err != nil || got[0] != want {
				t.Errorf("row stored at %d, discarded at 1000: restored %v, %v, want %t", createdAt, got, err, want)
			}
			if _, err := s.Delete(t.Context(), []model.RowKey{{ID: d.ID}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Restore(t.Context(), []model.TransMessage{d.TransMessage}, nil); err == nil {
			t.Error("rows without their settlements are accepted")
		}
	})
}

// TestServicesHopOverRows: many rows of a few services are found in one query.
func TestServicesHopOverRows(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{MaxOpenConns: 1})
		rows := batch(450)
		for i := range rows {
			rows[i].Service, rows[i].Delay = "svc-"+string(rune('a'+i%3)), hour
			if i == 400 {
				rows[i].Delay = 0
			}
		}
		if _, err := s.Insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		before := 0
		if s.Dialect() == "mysql" {
			before = handlerReads(t, s)
		}
		got, err := s.Services(t.Context())
		if err != nil || len(got) != 1 || got[0] != rows[400].Service {
			t.Errorf("got %v, %v, want %s alone", got, err, rows[400].Service)
		}
		if s.Dialect() == "mysql" {
			if reads := handlerReads(t, s) - before; reads > 100 {
				t.Errorf("finding 3 services among 450 rows read %d", reads)
			}
		}
	})
}

// TestForeignIDsAreFound: ids need not be version 7.
func TestForeignIDsAreFound(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		rows := batch(50)
		for i := range rows {
			rows[i].ID = uuid.NewString()
		}
		if _, err := s.Insert(t.Context(), rows); err != nil || present(t, s, rows...) != 50 {
			t.Errorf("%d of 50 rows, %v", present(t, s, rows...), err)
		}
	})
}
