// Package shop has what the services share: their messages, how they run, and how they consume.
package shop

// Exchanges, routing keys and queues, as in topology.yaml.
const (
	OrdersExchange   = "orders"
	OrderPlacedKey   = "order.placed"
	PaymentsQueue    = "payments" // gets each OrderPlaced
	PaymentsExchange = "payments"
	PaymentMadeKey   = "payment.made"
	PaidQueue        = "orders.paid" // gets each PaymentMade
	DeadLetters      = "dead-letters"
)

// OrderPlaced says that an order is there and is to be paid.
type OrderPlaced struct {
	Number string `json:"number"`
	Amount int64  `json:"amount"` // in cents
	Card   string `json:"card"`
}

// PaymentMade says that an order is paid.
type PaymentMade struct {
	Number string `json:"number"`
	Charge string `json:"charge"` // the payment provider's number
}
