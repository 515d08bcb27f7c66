package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	fillWorkers = 4
	fillRows    = 500
	// notDue is when rows that wait are due: after every run.
	notDue = 24 * time.Hour
)

// fill stores rows as a service would have left them, due after delay. Untimed.
func (p *product) fill(ctx context.Context, ids idRange, delay time.Duration, body []byte) error {
	batches := (ids.n + fillRows - 1) / fillRows
	errs := make([]error, fillWorkers)
	var wg sync.WaitGroup
	for w := range fillWorkers {
		wg.Go(func() {
			for batch := w; batch < batches && errs[w] == nil; batch += fillWorkers {
				from := batch * fillRows
				errs[w] = p.fillBatch(ctx, ids, from, min(from+fillRows, ids.n), delay, body)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return nil
}

func (p *product) fillBatch(
	ctx context.Context, ids idRange, from, to int, delay time.Duration, body []byte,
) error {
	drafts := make([]model.Draft, 0, to-from)
	for i := from; i < to; i++ {
		m := message(p.b.Exchange, body)
		m.ID = ids.at(i)
		norm, err := model.Normalize(m, time.Now(), model.Limits{MaxBody: len(body) + 1})
		if err != nil {
			return err
		}
		drafts = append(drafts, model.Draft{TransMessage: model.NewTransMessage(service, &norm, true), Delay: delay})
	}
	stored, err := p.store.Insert(ctx, drafts)
	if err != nil {
		return err
	}
	for _, s := range stored {
		if s != model.StoredNew {
			return errors.New("an id of the fill exists already")
		}
	}
	return nil
}
