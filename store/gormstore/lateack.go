package gormstore

import (
	"context"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// maxLifeEpochs is how far above an epoch another one is taken for the same life of the row:
// each edit and replay adds one, and another life starts at random.
const maxLifeEpochs = 1000

// LateAcks returns those of the keys, which were acked and not found by [Store.Delete], whose
// row was edited after that epoch, and writes a "late-ack" event for each: the broker has the
// message as it was before the edit, and consumers get the edited one too. It need not be
// there any more. A repeat writes the events again.
func (s *Store) LateAcks(ctx context.Context, keys []model.RowKey, instance string) ([]model.RowKey, error) {
	var out []model.RowKey
	_, err := inParts(keys, func(part []model.RowKey) (int, error) {
		var late []model.RowKey
		err := s.inTx(ctx, "late acks", func(tx dbTx) error {
			edits, err := s.editsOf(ctx, tx, part)
			if err != nil {
				return err
			}
			late = editedSince(part, edits)
			events := make([]model.Event, len(late))
			for i, k := range late {
				events[i] = model.Event{
					RowID: k.ID, Kind: model.EventLateAck, Instance: instance, Epoch: k.Epoch, Text: fmt.Sprintf(
						"epoch %d, the message as it was before an edit, was acked after the edit: "+
							"consumers may get both", k.Epoch),
				}
			}
			return s.insertEvents(ctx, tx, events)
		})
		out = append(out, late...)
		return len(late), err
	})
	return out, err
}

// editsOf returns the keys that edits of the rows made.
func (s *Store) editsOf(ctx context.Context, tx dbTx, keys []model.RowKey) ([]model.RowKey, error) {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	cond, args := s.d.in(sortedIDs(ids))
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT row_id, epoch FROM "+s.sql.events+" WHERE row_id "+cond+
		" AND kind = ? AND epoch > 0"), append(args, model.EventEdit)...)
	return collect(rows, err, func(r scanner, k *model.RowKey) error { return r.Scan(&k.ID, &k.Epoch) })
}

// editedSince returns those of the acked keys that an edit of the same life came after.
func editedSince(acked, edits []model.RowKey) []model.RowKey {
	epochs := make(map[string][]int, len(edits))
	for _, e := range edits {
		epochs[e.ID] = append(epochs[e.ID], e.Epoch)
	}
	var out []model.RowKey
	for _, k := range acked {
		for _, epoch := range epochs[k.ID] {
			if epoch > k.Epoch && epoch <= k.Epoch+maxLifeEpochs {
				out = append(out, k)
				break
			}
		}
	}
	return out
}
