package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// CheckReceived takes what a broker has taken, whatever it is named, and refuses what would close the sender's channel.
func TestCheckReceived(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for _, tt := range []struct {
		name string
		edit func(*model.Message)
		want string // part of the error; "" is none
	}{
		{"nothing set", func(*model.Message) {}, ""},
		{"an id that is no UUID", func(m *model.Message) { m.ID = "order 7" }, ""},
		{"reserved headers", func(m *model.Message) { m.Headers = map[string]any{"transmsg-attempts": int64(1)} }, ""},
		{"no text", func(m *model.Message) { m.ID, m.RoutingKey = "\xff", "\xfe" }, ""},
		{"a body of another's limit", func(m *model.Message) { m.Body = make([]byte, 5<<20) }, ""},
		{"long id", func(m *model.Message) { m.ID = long }, "id has 256 bytes"},
		{"long key", func(m *model.Message) { m.RoutingKey = long }, "routing_key has 256 bytes"},
		{"long reply_to", func(m *model.Message) { m.Properties.ReplyTo = long }, "reply_to has 256 bytes"},
		{"another login", func(m *model.Message) { m.Properties.UserID = "guest" }, "user_id"},
		{"expired", func(m *model.Message) { m.Properties.Expiration = "1000" }, "expiration"},
		{"headers of a frame", func(m *model.Message) {
			m.Headers = map[string]any{"h": strings.Repeat("x", 131072)}
		}, "headers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &model.Message{Exchange: "", RoutingKey: "q.retry.1s"}
			m.Properties.Timestamp = time.Unix(0, 0)
			tt.edit(m)
			err := model.CheckReceived(m, model.Limits{})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
