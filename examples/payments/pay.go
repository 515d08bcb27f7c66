package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/examples/shop"
	"github.com/transmsg/transmsg/publisher"
)

// payment is what the call leaves to be recorded.
type payment struct {
	order  shop.OrderPlaced
	charge string
}

// pay handles a placed order. charge comes first, without a transaction, since it cannot be rolled back: its key makes
// a repeat harmless. Then payment, inbox record and message commit together.
func (s *service) pay() consumer.Handler {
	return effect.CallThenTx(s.once, s.db, nil, s.charge, s.store)
}

func (s *service) charge(ctx context.Context, m *consumer.Message, key string) (payment, error) {
	var p payment
	if err := json.Unmarshal(m.Body, &p.order); err != nil {
		return p, consumer.Permanent(fmt.Errorf("read the order: %w", err)) // no repeat would help
	}
	var err error
	p.charge, err = s.provider.charge(ctx, key, p.order)
	return p, err
}

func (s *service) store(ctx context.Context, tx *sql.Tx, out *publisher.Tx, _ *consumer.Message, p payment) error {
	if _, err := tx.ExecContext(ctx, s.insert, p.order.Number, p.charge); err != nil {
		return err
	}
	made := shop.PaymentMade{Number: p.order.Number, Charge: p.charge}
	msg, err := transmsg.JSON(shop.PaymentsExchange, shop.PaymentMadeKey, made)
	if err != nil {
		return err
	}
	msg.Key = p.order.Number
	return out.Publish(ctx, msg)
}
