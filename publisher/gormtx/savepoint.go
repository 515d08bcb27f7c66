package gormtx

import (
	"context"
	"sync"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/publisher"
)

// watched returns tx with ctx and with a dialect that tells out what savepoints do to the messages.
// gorm sets those of nested transactions through it. The connection stays gorm's own,
// since callers take it out of the statement.
func watched(ctx context.Context, tx *gorm.DB, out *publisher.Tx) *gorm.DB {
	tx = tx.WithContext(ctx) // with a Config of its own: the caller's stays as it is
	inner, ok := tx.Dialector.(gorm.SavePointerDialectorInterface)
	if !ok {
		return tx
	}
	tx.Dialector = &dialect{
		Dialector: tx.Dialector, savepoints: inner, out: out, marks: map[string]publisher.Mark{},
	}
	return tx
}

// dialect is the caller's dialect, watched.
type dialect struct {
	gorm.Dialector
	savepoints gorm.SavePointerDialectorInterface
	out        *publisher.Tx

	mu    sync.Mutex
	marks map[string]publisher.Mark // by the savepoint's name; a name used again is a new one
}

// SavePoint implements [gorm.SavePointerDialectorInterface].
func (d *dialect) SavePoint(tx *gorm.DB, name string) error {
	if err := d.savepoints.SavePoint(tx, name); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marks[name] = d.out.Mark()
	return nil
}

// RollbackTo implements [gorm.SavePointerDialectorInterface].
func (d *dialect) RollbackTo(tx *gorm.DB, name string) error {
	if err := d.savepoints.RollbackTo(tx, name); err != nil {
		d.out.Refuse(err) // gorm drops it, and what the savepoint was to undo is there
		return err
	}
	d.mu.Lock()
	mark, known := d.marks[name]
	d.mu.Unlock()
	if known {
		d.out.RolledBackTo(mark)
	}
	return nil
}

// Translate implements [gorm.ErrorTranslator], which a dialect may have.
func (d *dialect) Translate(err error) error {
	if t, ok := d.Dialector.(gorm.ErrorTranslator); ok {
		return t.Translate(err)
	}
	return err
}
