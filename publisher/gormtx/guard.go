package gormtx

import (
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/publisher"
)

// Guard is a plugin for the service's own *gorm.DB:
//
//	err := db.Use(gormtx.Guard{})
//
// A statement on db that gets the context of a [Transaction], by db.WithContext(ctx), is
// then refused with [publisher.ErrInTx] and makes the transaction roll back: tx is meant. A
// statement without that context cannot be told from one outside. Who means db takes
// publisher.OutsideTx(ctx).
type Guard struct{}

// Name implements [gorm.Plugin].
func (Guard) Name() string { return "transmsg:guard" }

// Initialize implements [gorm.Plugin].
func (g Guard) Initialize(db *gorm.DB) error {
	c := db.Callback()
	for _, register := range []func(string, func(*gorm.DB)) error{
		c.Create().Before("*").Register, c.Query().Before("*").Register, c.Update().Before("*").Register,
		c.Delete().Before("*").Register, c.Row().Before("*").Register, c.Raw().Before("*").Register,
	} {
		if err := register(g.Name(), guard); err != nil {
			return fmt.Errorf("gormtx: install the guard: %w", err)
		}
	}
	return nil
}

func guard(db *gorm.DB) {
	if _, inside := db.Statement.ConnPool.(gorm.TxCommitter); inside || publisher.TxFrom(db.Statement.Context) == nil {
		return
	}
	err := fmt.Errorf("gormtx: a statement on the outer *gorm.DB: %w: use the *gorm.DB that Transaction hands to "+
		"your function, or publisher.OutsideTx(ctx) if it is to stay when that is rolled back", publisher.ErrInTx)
	refuse(db.Statement.Context, err)
	_ = db.AddError(err) // it is in db.Error from here on, and later callbacks do nothing
}
