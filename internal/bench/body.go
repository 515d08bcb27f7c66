package bench

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/transmsg/transmsg/model"
)

const (
	service     = "bench"
	contentType = "application/json"
	// rowProperties is what the product stores of a message with contentType and a
	// defaulted timestamp.
	rowProperties = `{"v":1,"content_type":"application/json","timestamp":1790000000,"timestamp_defaulted":true}`
	// rowExchange is as long as the name of the exchange.
	rowExchange = "transmsg-bench-0123456789abcdef"
	minBody     = 16
)

// makeBody is a JSON document of exactly size bytes: random letters, which nothing
// compresses away.
func makeBody(size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	random := rand.New(rand.NewPCG(1, 2))
	note := make([]byte, size-len(`{"note":""}`))
	for i := range note {
		note[i] = letters[random.IntN(len(letters))]
	}
	body, err := json.Marshal(struct {
		Note string `json:"note"`
	}{string(note)})
	if err != nil {
		panic(err) // a string of letters always encodes
	}
	return body
}

// message is the product's message; the library makes the id.
func message(exchange string, body []byte) model.Message {
	return model.Message{
		Exchange: exchange, RoutingKey: Key, Body: body, Properties: model.Properties{ContentType: contentType},
	}
}
