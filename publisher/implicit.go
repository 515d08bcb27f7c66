package publisher

import (
	"context"
	"errors"

	"github.com/transmsg/transmsg/model"
)

// errStayed is why rows are there after a rollback.
var errStayed = errors.New("these messages stay although the transaction was rolled back, and a compensator " +
	"sends them: a statement such as CREATE TABLE committed what came before it")

// stayed looks for the rows of a transaction that was rolled back. On MySQL and MariaDB DDL commits
// what came before it, and no rollback undoes that. The error names the rows that are there; nil
// means that none was seen.
func (t *Tx) stayed(ctx context.Context, flights []*flight) error {
	if len(flights) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	states, err := t.p.cfg.Store.ReadBack(ctx, flightIDs(flights))
	if err != nil {
		t.p.log.Warn("look for rows after a rollback", "error", err)
		return nil
	}
	there, _ := present(flights, states)
	if len(there) == 0 {
		return nil
	}
	return &model.StoreError{Kind: model.ErrStoreUnknown, IDs: flightIDs(there), Err: errStayed}
}
