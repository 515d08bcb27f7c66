// Command payments is a payment service in plain database/sql. It consumes placed orders, has the provider charge each
// one, and stores the payment together with the record that the message was handled and the message that tells of the
// payment.
//
//	GET /payments   how many payments there are, and for how many orders
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/examples/shop"
)

func main() { shop.Main(run) }

type service struct {
	db       *sql.DB
	insert   string // a payment
	once     *effect.Once
	provider provider
}

// run opens what the service needs once per process, and closes it when its parts have ended.
func run(ctx context.Context) (err error) {
	listen, err1 := shop.Required("LISTEN")
	dsn, err2 := shop.Required("DATABASE")
	url, err3 := shop.Required("AMQP")
	charges, err4 := shop.Required("PROVIDER")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	s := &service{provider: provider{charges}}
	if err := s.openDatabase(ctx, dsn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	ob, err := transmsg.Open(ctx, transmsg.Config{Service: "payments", Store: shop.Messages(dsn), AMQP: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Drain(ob)) }()
	s.once, err = effect.New(effect.Config{Consumer: "payments", Store: ob.Store(), Publisher: ob.Publisher()})
	if err != nil {
		return err
	}
	return shop.All(ctx, shop.Serve(listen, s.routes()), shop.Consume(url, shop.PaymentsQueue, s.once, s.pay()))
}

// openDatabase makes the table of payments. It has no unique key: that an order has one payment is the inbox's work.
func (s *service) openDatabase(ctx context.Context, dsn string) (err error) {
	driver := "mysql"
	s.insert = "INSERT INTO payments (number, charge) VALUES (?, ?)"
	if shop.OnPostgres(dsn) {
		driver = "pgx"
		s.insert = "INSERT INTO payments (number, charge) VALUES ($1, $2)"
	}
	if s.db, err = sql.Open(driver, dsn); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	_, err = s.db.ExecContext(ctx,
		"CREATE TABLE IF NOT EXISTS payments (number VARCHAR(64) NOT NULL, charge VARCHAR(64) NOT NULL)")
	if err != nil {
		return errors.Join(fmt.Errorf("make the table of payments: %w", err), s.db.Close())
	}
	return nil
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /payments", s.count)
	return mux
}

func (s *service) count(w http.ResponseWriter, r *http.Request) {
	var payments, orders int
	err := s.db.QueryRowContext(r.Context(), "SELECT COUNT(*), COUNT(DISTINCT number) FROM payments").
		Scan(&payments, &orders)
	if err != nil {
		slog.Default().Error("request failed", "what", "count the payments", "error", err)
		shop.Answer(w, http.StatusServiceUnavailable, "try again")
		return
	}
	shop.Answer(w, http.StatusOK, map[string]int{"payments": payments, "orders": orders})
}
