package model_test

import (
	"errors"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func TestNewTransMessageAndBack(t *testing.T) {
	t.Parallel()
	in := everyType()
	in.Key, in.Body = "order-7", []byte{0, 1, 2}
	m := normalize(t, in)
	row := model.NewTransMessage("svc", &m, false)
	if row.ID != m.ID || row.Service != "svc" || row.Status != model.Ready || row.MessageKey != "order-7" ||
		row.Exchange != m.Exchange || row.RoutingKey != m.RoutingKey {
		t.Errorf("got %+v", row)
	}
	if want := len(row.Payload) + len(row.Properties); row.Size != want {
		t.Errorf("got size %d, want %d", row.Size, want)
	}
	if row.Version != 0 || row.Epoch != 0 || row.Attempts != 0 || row.Failures != 0 || row.NextAttemptAt != 0 {
		t.Errorf("a new row has counts: %+v", row)
	}
	got, err := row.Message()
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffExact(m, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRowOfANewerVersionIsNotDecoded(t *testing.T) {
	t.Parallel()
	row := model.TransMessage{Properties: []byte(`{"v":3}`)}
	if _, err := row.Message(); !errors.Is(err, model.ErrNewerCodec) {
		t.Errorf("got %v, want ErrNewerCodec", err)
	}
}

func TestSameContentSeesEveryDifference(t *testing.T) {
	t.Parallel()
	base := func() model.Message {
		m := everyType()
		m.Key, m.Body = "key", []byte("body")
		return m
	}
	row := func(m model.Message) *model.TransMessage {
		m = normalize(t, m)
		r := model.NewTransMessage("svc", &m, false)
		return &r
	}
	for name, change := range map[string]func(*model.Message){
		"exchange":         func(m *model.Message) { m.Exchange += "x" },
		"routing key":      func(m *model.Message) { m.RoutingKey += "x" },
		"key":              func(m *model.Message) { m.Key += "x" },
		"body":             func(m *model.Message) { m.Body = []byte("bodY") },
		"no body":          func(m *model.Message) { m.Body = nil },
		"unroutable":       func(m *model.Message) { m.AllowUnroutable = false },
		"content type":     func(m *model.Message) { m.Properties.ContentType = "" },
		"content encoding": func(m *model.Message) { m.Properties.ContentEncoding = "" },
		"priority":         func(m *model.Message) { m.Properties.Priority++ },
		"correlation id":   func(m *model.Message) { m.Properties.CorrelationID = "" },
		"reply to":         func(m *model.Message) { m.Properties.ReplyTo = "" },
		"expiration":       func(m *model.Message) { m.Properties.Expiration = "060000" },
		"type":             func(m *model.Message) { m.Properties.Type = "" },
		"app id":           func(m *model.Message) { m.Properties.AppID = "" },
		"given timestamp":  func(m *model.Message) { m.Properties.Timestamp = time.Unix(1790000001, 0) },
		"header gone":      func(m *model.Message) { delete(m.Headers, "nil") },
		"header value":     func(m *model.Message) { m.Headers["bool"] = false },
		"header type":      func(m *model.Message) { m.Headers["uint8"] = int64(255) },
		"header sign":      func(m *model.Message) { m.Headers["-0"] = 0.0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := base()
			change(&other)
			if model.SameContent(row(base()), row(other)) {
				t.Error("got the same")
			}
			if !model.SameContent(row(other), row(other)) {
				t.Error("got a difference between equal rows")
			}
		})
	}
}

func TestSameContentIgnoresDefaultedTimestampsAndState(t *testing.T) {
	t.Parallel()
	at := func(unix int64, defaulted bool) *model.TransMessage {
		m := everyType()
		m.Properties.Timestamp = time.Unix(unix, 0)
		m = normalize(t, m)
		r := model.NewTransMessage("svc", &m, defaulted)
		return &r
	}
	corrupt := func() *model.TransMessage { return &model.TransMessage{Properties: []byte("?")} }
	other := at(20, true)
	other.Status, other.Version, other.Attempts, other.LastError = model.Dead, 7, 3, "x"
	spaced := at(20, true)
	spaced.Properties = append([]byte(" "), spaced.Properties...)
	for _, tc := range []struct {
		name string
		a, b *model.TransMessage
		want bool
	}{
		{"both defaulted", at(10, true), at(20, true), true},
		{"state of the row", at(10, true), other, true},
		{"spacing of a hand-written row", at(10, true), spaced, true},
		{"both given, equal", at(10, false), at(10, false), true},
		{"both given", at(10, false), at(20, false), false},
		{"one given", at(10, true), at(10, false), false},
		{"equal and corrupt", corrupt(), corrupt(), true},
		{"corrupt", corrupt(), at(10, true), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if model.SameContent(tc.a, tc.b) != tc.want || model.SameContent(tc.b, tc.a) != tc.want {
				t.Errorf("want %v both ways", tc.want)
			}
		})
	}
}
