package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/examples/shop"
)

// place stores an order and its message in one transaction. The message is sent right after the commit.
func (s *service) place(ctx context.Context, o shop.OrderPlaced) error {
	msg, err := transmsg.JSON(shop.OrdersExchange, shop.OrderPlacedKey, o)
	if err != nil {
		return err
	}
	msg.Key = o.Number // "where is order 4711?"
	return s.ob.Transaction(ctx, s.db, func(ctx context.Context, tx *gorm.DB, out *transmsg.Tx) error {
		row := Order{Number: o.Number, Amount: o.Amount, Card: o.Card, Status: placed}
		if err := tx.Create(&row).Error; err != nil {
			return err
		}
		return out.Publish(ctx, msg)
	})
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.post)
	mux.HandleFunc("GET /orders", s.count)
	return mux
}

// post answers 201 or 409 where the order and its message are stored. After 503 nobody knows: the client asks again
// with the same number.
func (s *service) post(w http.ResponseWriter, r *http.Request) {
	var o shop.OrderPlaced
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Number == "" {
		shop.Answer(w, http.StatusBadRequest, "give an order as JSON, with a number")
		return
	}
	switch err := s.place(r.Context(), o); {
	case errors.Is(err, gorm.ErrDuplicatedKey):
		shop.Answer(w, http.StatusConflict, "there is an order with this number")
	case err != nil:
		unavailable(w, "place an order", err)
	default:
		shop.Answer(w, http.StatusCreated, o)
	}
}

func (s *service) count(w http.ResponseWriter, r *http.Request) {
	var rows []struct {
		Status string
		N      int
	}
	err := s.db.WithContext(r.Context()).Model(&Order{}).
		Select("status, COUNT(*) AS n").Group("status").Scan(&rows).Error
	if err != nil {
		unavailable(w, "count the orders", err)
		return
	}
	counts := map[string]int{placed: 0, paid: 0}
	for _, row := range rows {
		counts[row.Status] = row.N
	}
	shop.Answer(w, http.StatusOK, counts)
}

// unavailable keeps what went wrong for the log.
func unavailable(w http.ResponseWriter, what string, err error) {
	slog.Default().Error("request failed", "what", what, "error", err)
	shop.Answer(w, http.StatusServiceUnavailable, "try again")
}
