// Command provider is a payment provider that is not reliable: it fails before it has charged, or after. It stands for
// somebody else's service, so it knows nothing of messages.
//
//	POST /charges   charges an order's card, once for each Idempotency-Key
//	GET  /charges   how many charges there are, for how many orders, and how many answers were failures
//	POST /mend      from now on it does not fail, and takes cards that begin with "expired"; "stolen" ones never
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"github.com/transmsg/transmsg/examples/shop"
)

func main() { shop.Main(run) }

func run(ctx context.Context) error {
	listen, err1 := shop.Required("LISTEN")
	percent, err2 := shop.Percent("FAIL_PERCENT")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	p := &provider{failPercent: percent, charges: map[string]charge{}}
	return shop.All(ctx, shop.Serve(listen, p.routes()))
}

type charge struct {
	ID    string `json:"id"`
	order string
}

type provider struct {
	failPercent int // of the calls: half of them before the charge, half after it

	mu      sync.Mutex
	charges map[string]charge // by idempotency key
	before  int               // failures before a charge
	after   int               // and after it
	mended  bool
}

func (p *provider) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", p.charge)
	mux.HandleFunc("GET /charges", p.count)
	mux.HandleFunc("POST /mend", p.mend)
	return mux
}

func (p *provider) charge(w http.ResponseWriter, r *http.Request) {
	var order shop.OrderPlaced
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil || key == "" {
		shop.Answer(w, http.StatusBadRequest, "give an order as JSON, and an Idempotency-Key")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made, again := p.charges[key]
	luck := rand.IntN(200)
	switch {
	case again:
		shop.Answer(w, http.StatusOK, made)
	case p.declines(order.Card):
		shop.Answer(w, http.StatusPaymentRequired, "the card is declined")
	case luck < p.failPercent:
		p.before++
		shop.Answer(w, http.StatusInternalServerError, "not charged")
	default:
		made = charge{ID: fmt.Sprintf("ch-%d", len(p.charges)+1), order: order.Number}
		p.charges[key] = made
		if luck < 2*p.failPercent {
			p.after++
			shop.Answer(w, http.StatusInternalServerError, "charged, and then something broke")
			return
		}
		shop.Answer(w, http.StatusCreated, made)
	}
}

// declines is called with the lock.
func (p *provider) declines(card string) bool {
	return strings.HasPrefix(card, "stolen") || strings.HasPrefix(card, "expired") && !p.mended
}

func (p *provider) count(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	orders := map[string]bool{}
	for _, c := range p.charges {
		orders[c.order] = true
	}
	shop.Answer(w, http.StatusOK, map[string]int{
		"charges": len(p.charges), "orders": len(orders), "failed_before": p.before, "failed_after": p.after,
	})
}

func (p *provider) mend(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended, p.failPercent = true, 0
	shop.Answer(w, http.StatusOK, "mended")
}
