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
func (t *Tx) stayed(ctx context.Context, envelopes []*envelope) error {
	if len(envelopes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	states, err := t.p.cfg.Store.ReadBack(ctx, envelopeIDs(envelopes))
	if err != nil {
		t.p.log.Warn("look for rows after a rollback", "error", err)
		return nil
	}
	there, _ := present(envelopes, states)
	if len(there) == 0 {
		return nil
	}
	return &model.StoreError{Kind: model.ErrStoreUnknown, IDs: envelopeIDs(there), Err: errStayed}
}
