// A service with its own *gorm.DB on MySQL. It is read by deps_test.go and linked by nobody.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/store/mysql"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := gorm.Open(gormmysql.Open(os.Getenv("DSN")), &gorm.Config{})
	if err != nil {
		return err
	}
	ob, err := transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: mysql.Gorm(db), AMQP: os.Getenv("AMQP")})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := ob.Close(closing); err != nil {
			log.Print(err)
		}
	}()
	return ob.Transaction(ctx, db, func(ctx context.Context, tx *gorm.DB, out *transmsg.Tx) error {
		if err := tx.Exec("INSERT INTO orders (number) VALUES (?)", "4711").Error; err != nil {
			return err
		}
		return out.Publish(ctx, transmsg.Message{Exchange: "orders", RoutingKey: "order.placed", Body: []byte("{}")})
	})
}
