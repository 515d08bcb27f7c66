package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/examples/shop"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// provider is the payment provider, at a URL.
type provider struct{ url string }

// charge charges an order, once for each key. Its errors say what becomes of the message.
func (p provider) charge(ctx context.Context, key string, o shop.OrderPlaced) (id string, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", consumer.Unavailable(err) // away: the queue waits, and no attempt is spent
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return "", fmt.Errorf("charge: read the answer: %w", err)
	case resp.StatusCode == http.StatusPaymentRequired:
		return "", consumer.Permanent(fmt.Errorf("the card of order %s is declined", o.Number))
	case resp.StatusCode >= http.StatusBadRequest:
		return "", fmt.Errorf("charge: %s", resp.Status) // perhaps charged: again, with the same key
	}
	var made struct{ ID string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return "", fmt.Errorf("charge: read the answer: %w", err)
	}
	return made.ID, nil
}
