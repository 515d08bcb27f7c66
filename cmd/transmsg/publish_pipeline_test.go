package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/model"
)

// fakeReceipt resolves after a while, or never.
type fakeReceipt struct {
	after   time.Duration
	outcome model.Outcome
}

// Wait implements receipt.
func (f fakeReceipt) Wait(ctx context.Context) (model.Outcome, error) {
	if f.after < 0 {
		<-ctx.Done()
		return model.Outcome{}, ctx.Err()
	}
	select {
	case <-time.After(f.after):
		return f.outcome, nil
	case <-ctx.Done():
		return model.Outcome{}, ctx.Err()
	}
}

func lines(n int) chan input {
	ch := make(chan input, n)
	for i := range n {
		ch <- input{line: i + 1, message: model.Message{Key: fmt.Sprint(i + 1)}}
	}
	close(ch)
	return ch
}

// collect runs a pipeline and returns its results by line.
func collect(ctx, hard context.Context, p *pipeline, in <-chan input) map[int]result {
	var mu sync.Mutex
	got := map[int]result{}
	p.report = func(r result) {
		mu.Lock()
		defer mu.Unlock()
		got[r.line] = r
	}
	p.run(ctx, hard, in)
	return got
}

func TestPipelineVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		receipt      receipt
		err          error
		want         verdict
		failed, kept bool
	}{
		{"acked", fakeReceipt{outcome: model.Outcome{Kind: model.Acked}}, nil, "acked", false, false},
		{"returned", fakeReceipt{outcome: model.Outcome{Kind: model.Returned}}, nil, "returned", false, true},
		{"refused", fakeReceipt{outcome: model.Outcome{Kind: model.Refused}}, nil, "refused", false, true},
		{"nacked", fakeReceipt{outcome: model.Outcome{Kind: model.Nacked}}, nil, "nacked", false, true},
		{"deferred", fakeReceipt{outcome: model.Outcome{Kind: model.Deferred}}, nil, "deferred", false, false},
		{"no outcome in time", fakeReceipt{after: -1}, nil, verdictPending, false, false},
		{"invalid", nil, &model.InvalidError{Field: "key", Index: -1}, verdictInvalid, true, false},
		{"conflict", nil, &model.StoreError{Kind: model.ErrConflict}, verdictConflict, true, false},
		{"dead", nil, &model.StoreError{Kind: model.ErrDead}, verdictDead, false, true},
		{"not stored", nil, &model.StoreError{Kind: model.ErrNotStored}, verdictNotStored, true, false},
		{"maybe stored", nil, &model.StoreError{Kind: model.ErrStoreUnknown}, verdictStoreUnknown, true, false},
		{"closed", nil, model.ErrClosed, verdictNotStored, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &pipeline{wait: time.Second, publish: func(context.Context, model.Message) (receipt, error) {
					return tt.receipt, tt.err
				}}
				r := collect(t.Context(), t.Context(), p, lines(1))[1]
				if r.verdict != tt.want || r.verdict.failed() != tt.failed || r.verdict.kept() != tt.kept {
					t.Errorf("got %q, failed %t, kept %t", r.verdict, r.verdict.failed(), r.verdict.kept())
				}
				if r.id == "" {
					t.Error("no id: a message that may be stored could not be repeated")
				}
			})
		})
	}
}

// Many are in flight at once: 512 messages of a second each take a second.
func TestPipelineOverlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipeline{wait: time.Minute, publish: func(context.Context, model.Message) (receipt, error) {
			return fakeReceipt{time.Second, model.Outcome{Kind: model.Acked}}, nil
		}}
		begin := time.Now()
		got := collect(t.Context(), t.Context(), p, lines(2*inFlightMessages))
		if took := time.Since(begin); len(got) != 2*inFlightMessages || took != 2*time.Second {
			t.Errorf("%d results in %v of the bubble's clock", len(got), took)
		}
	})
}

func TestPipelineStopsOrSkips(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in := make(chan input)
			go func() {
				defer close(in)
				for i := 1; i <= 100; i++ {
					next := input{line: i}
					if i == 5 {
						next.err = errors.New("no message")
					}
					select {
					case in <- next:
					case <-ctx.Done():
						return // nobody reads on
					}
				}
			}()
			p := &pipeline{wait: time.Minute, stopOnError: stop}
			p.publish = func(context.Context, model.Message) (receipt, error) {
				return fakeReceipt{time.Second, model.Outcome{Kind: model.Acked}}, nil
			}
			got := collect(ctx, ctx, p, in)
			want := 100
			if stop {
				want = 5
			}
			if len(got) != want || got[5].verdict != verdictMalformed || got[4].verdict != "acked" {
				t.Errorf("stop %t: %d results, want %d; line 4 %v, line 5 %v", stop, len(got), want, got[4], got[5])
			}
		})
	}
}

// The end of ctx ends the reading; what is under way goes on until its outcome or the end
// of the second context.
func TestC24_PipelineFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hard, cut := context.WithTimeout(t.Context(), time.Minute)
		defer cut()
		n := 0
		p := &pipeline{wait: time.Hour, publish: func(ctx context.Context, _ model.Message) (receipt, error) {
			if ctx.Err() != nil {
				t.Error("the signal reached the store")
			}
			if n++; n == 3 {
				cancel()
				return fakeReceipt{after: -1}, nil
			}
			return fakeReceipt{time.Second, model.Outcome{Kind: model.Acked}}, nil
		}}
		in := make(chan input)
		go func() {
			for i := 1; ; i++ {
				synctest.Wait() // one at a time, so that the third is the last
				select {
				case in <- input{line: i}:
				case <-ctx.Done():
					return
				}
			}
		}()
		got := collect(ctx, hard, p, in)
		if len(got) != 3 || got[1].verdict != "acked" || got[2].verdict != "acked" || got[3].verdict != verdictPending {
			t.Errorf("got %v", got)
		}
	})
}

// A stream that fails in the middle is reported with its line, and ends.
func TestSourceReportsAReadError(t *testing.T) {
	t.Parallel()
	in := io.MultiReader(strings.NewReader("{}\n"), errReader{})
	s := &source{lines: newLineReader(in, maxLine)}
	out := make(chan input, 10)
	s.read(t.Context(), out)
	first, second := <-out, <-out
	if first.err != nil || second.line != 2 || second.err == nil || !strings.Contains(second.err.Error(), "disk") {
		t.Errorf("got %+v, %+v", first, second)
	}
	if extra, ok := <-out; ok {
		t.Errorf("read on after the error: %+v", extra)
	}
}

type errReader struct{}

// Read implements io.Reader.
func (errReader) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }
