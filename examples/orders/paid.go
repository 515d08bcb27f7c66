package main

import (
	"context"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/gormeffect"
	"github.com/transmsg/transmsg/examples/shop"
	"github.com/transmsg/transmsg/publisher"
)

// markPaid marks an order as paid, once for each message.
func (s *service) markPaid() consumer.Handler {
	return gormeffect.InTx(s.once, s.db,
		func(_ context.Context, tx *gorm.DB, _ *publisher.Tx, m *consumer.Message) error {
			var made shop.PaymentMade
			if err := json.Unmarshal(m.Body, &made); err != nil {
				return consumer.Permanent(fmt.Errorf("read the payment: %w", err)) // no repeat would help
			}
			done := tx.Model(&Order{}).Where("number = ? AND status = ?", made.Number, placed).Update("status", paid)
			if done.Error == nil && done.RowsAffected == 0 {
				return consumer.Permanent(fmt.Errorf("no order %q waits to be paid", made.Number))
			}
			return done.Error
		})
}
