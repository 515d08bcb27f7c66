package compensator

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// crashLoopClaims is the number of claims without a settlement from which a row is
// suspected to end its senders.
const crashLoopClaims = 3

// A row that was claimed alone more than loneMost times without a settlement, over at least
// loneTime by the database's clock, goes DEAD unsent: it ends its senders.
const (
	loneMost = 5
	loneTime = 10 * time.Minute
)

// crashLoop is the outcome of a row that ends its senders; ok is false for all others.
func crashLoop(row *model.TransMessage) (o model.Outcome, ok bool) {
	over := model.MillisToDuration(row.UpdatedAt - row.LoneSince) // the claim has just set UpdatedAt
	if row.LoneClaims <= loneMost || over < loneTime {
		return model.Outcome{}, false
	}
	return refusal(model.CodeCrashLoop, fmt.Errorf("claimed alone %d times in %v and never settled: it seems to end "+
		"the process that sends it", row.LoneClaims-1, over.Round(time.Second)), true), true
}

// nothingElse waits until no row but those just claimed is on its way: of two rows on their way
// when the process ends nobody could say which it was.
func (r *run) nothingElse(ctx context.Context) error {
	wait, cancel := context.WithTimeoutCause(ctx, r.c.cfg.Lease, errStuck)
	defer cancel()
	return r.c.unanswered.wait(wait, 0, 0)
}
