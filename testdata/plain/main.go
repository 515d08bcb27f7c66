// A service like the one beside it, without transmsg: it publishes after its commit, so a message is
// lost with the process. It is what scripts/cost.sh compares with.
package main

import (
	"context"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := gorm.Open(gormmysql.Open(os.Getenv("DSN")), &gorm.Config{})
	if err != nil {
		return err
	}
	conn, err := amqp.Dial(os.Getenv("AMQP"))
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	err = db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Exec("INSERT INTO orders (number) VALUES (?)", "4711").Error
	})
	if err != nil {
		return err
	}
	return ch.PublishWithContext(ctx, "orders", "order.placed", false, false, amqp.Publishing{Body: []byte("{}")})
}
