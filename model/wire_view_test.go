package model_test

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// viewed is what a view tells, as a message.
func viewed(v *model.WireView) model.Message {
	return model.Message{ID: v.ID, Properties: v.Properties, Headers: v.Headers}
}

func TestWirePropertiesTellWhatWasEncoded(t *testing.T) {
	t.Parallel()
	m := normalize(t, everyType())
	m.Headers["not utf-8"], m.Headers["\xff\x00"] = "a\xffb", int64(1)
	m.Properties.UserID = "guest"
	v := model.EncodeWire(&m).View()
	want := model.Message{ID: m.ID, Properties: m.Properties, Headers: m.Headers}
	if diff := diffExact(want, viewed(&v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(v.Problems) > 0 || v.DeliveryMode != 2 || !v.HasID {
		t.Errorf("view %+v", v)
	}
	none := model.WireProperties{0, 0}.View()
	empty := model.WireProperties{0, 0x80, 0}.View()
	if none.HasID || !empty.HasID || len(none.Problems)+len(empty.Problems) > 0 {
		t.Errorf("no id %+v, an empty id %+v", none, empty)
	}
}

// TestWireViewSaysWhatItDoesNotShow: everything that cannot be sent again has a problem, and the rest is read.
func TestWireViewSaysWhatItDoesNotShow(t *testing.T) {
	t.Parallel()
	table := func(fields string) model.WireProperties {
		n := len(fields)
		head := "\x20\x80" + string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		return model.WireProperties(head + fields + "\x01m")
	}
	deep := func(n int) string {
		inner := ""
		for range n {
			size := len(inner)
			inner = "A" + string([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}) + inner
		}
		return "\x01d" + inner
	}
	var many strings.Builder
	for i := range 8001 {
		many.WriteString("\x02" + string([]byte{byte(i >> 8), byte(i)}) + "V")
	}
	for name, c := range map[string]struct {
		w     model.WireProperties
		wants string
	}{
		"nothing":          {nil, "cut off"},
		"name twice":       {table("\x01aV\x01aV"), "twice"},
		"unknown type":     {table("\x01aZ"), "unknown type"},
		"cut value":        {table("\x01aS\x00\x00\x00\x09short"), "cut off"},
		"not a number":     {table("\x01ad\x7f\xf8\x00\x00\x00\x00\x00\x00"), "NaN"},
		"infinite":         {table("\x01af\x7f\x80\x00\x00"), "+Inf"},
		"33 deep":          {table(deep(33)), "deeper than 32"},
		"1000 deep":        {table(deep(1000)), "not read"},
		"8001 headers":     {table(many.String()), "8001 entries"},
		"cluster id":       {model.WireProperties{0, 0x84, 1, 'm', 1, 'c'}, "does not have"},
		"something behind": {model.WireProperties{0, 0x80, 1, 'm', 'x'}, "1 bytes follow"},
	} {
		v := c.w.View()
		if !strings.Contains(strings.Join(v.Problems, "; "), c.wants) {
			t.Errorf("%s: problems %q, want one with %q", name, v.Problems, c.wants)
		}
		if c.w != nil && v.ID != "m" {
			t.Errorf("%s: what follows the headers is lost: %+v", name, v)
		}
	}
	if v := table(deep(32)).View(); len(v.Problems) > 0 {
		t.Errorf("32 deep: %q", v.Problems)
	}
	if v := table("\x01af\x3f\x80\x00\x00").View(); v.Headers["a"] != float32(1) {
		t.Errorf("a float: %+v", v)
	}
}

// FuzzWireView: whatever came, a letter is made of it; and what is said to be sendable is sent as it was read.
func FuzzWireView(f *testing.F) {
	m := everyType()
	f.Add([]byte(model.EncodeWire(&m)), []byte("body"))
	f.Add([]byte("\x20\x00\x00\x00\x00\x06\x01aV\x01aV"), []byte(nil))
	f.Fuzz(func(t *testing.T, properties, body []byte) {
		w := model.WireProperties(properties)
		v := w.View()
		if len(v.Problems) == 0 {
			m := viewed(&v)
			again := model.EncodeWire(&m).View()
			if len(m.Headers) == 0 {
				m.Headers, again.Headers = nil, nil
			}
			if diff := diffExact(m, viewed(&again)); diff != "" {
				t.Fatalf("(-read +read again):\n%s", diff)
			}
		}
		r := model.Rejected{Source: "dead", Exchange: "x", RoutingKey: "k", Properties: w, Body: body}
		l := r.Letter("shop")
		row, err := model.Replay{}.Row(&l)
		if (err == nil) != (l.Unreplayable == "") {
			t.Fatalf("unreplayable %q, and its row: %v", l.Unreplayable, err)
		}
		if err != nil {
			return
		}
		sent, err := row.Message()
		if err != nil || sent.ID != v.ID || sent.Headers[model.HeaderReplayOf] != l.ID {
			t.Fatalf("the row's message: %+v, %v", sent, err)
		}
	})
}
