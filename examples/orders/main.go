// Command orders is an order service on gorm. It takes orders by HTTP, stores each together with its message, and marks
// an order as paid when the payment's message comes.
//
//	POST /orders   places an order, once for each number
//	GET  /orders   how many orders there are in each status
package main

import (
	"context"
	"errors"
	"fmt"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/examples/shop"
)

// Order is a row of the service's own.
type Order struct {
	Number string `gorm:"primaryKey;size:64"`
	Amount int64
	Card   string `gorm:"size:64"`
	Status string `gorm:"size:16"`
}

// The states of an order.
const (
	placed = "PLACED"
	paid   = "PAID"
)

func main() { shop.Main(run) }

type service struct {
	db   *gorm.DB
	ob   *transmsg.Outbox
	once *effect.Once
}

// run opens what the service needs once per process, and closes it when its parts have ended.
func run(ctx context.Context) (err error) {
	listen, err1 := shop.Required("LISTEN")
	dsn, err2 := shop.Required("DATABASE")
	url, err3 := shop.Required("AMQP")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	s := &service{}
	if s.db, err = openDatabase(dsn); err != nil {
		return err
	}
	s.ob, err = transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: shop.Messages(dsn), AMQP: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Drain(s.ob)) }()
	s.once, err = effect.New(effect.Config{Consumer: "orders", Store: s.ob.Store(), Publisher: s.ob.Publisher()})
	if err != nil {
		return err
	}
	return shop.All(ctx, shop.Serve(listen, s.routes()), shop.Consume(url, shop.PaidQueue, s.once, s.markPaid()))
}

func openDatabase(dsn string) (*gorm.DB, error) {
	dialector := gormmysql.Open(dsn)
	if shop.OnPostgres(dsn) {
		dialector = gormpostgres.Open(dsn)
	}
	// An order that is there already is gorm.ErrDuplicatedKey, and no line in the log.
	db, err := gorm.Open(dialector, &gorm.Config{TranslateError: true, Logger: logger.Discard})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		return nil, fmt.Errorf("make the table of orders: %w", err)
	}
	return db, nil
}
