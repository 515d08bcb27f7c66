package model_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

func TestSelectionDefaultsAndRefusals(t *testing.T) {
	t.Parallel()
	got, err := model.Selection{IDs: []string{"a"}}.WithDefaults()
	if err != nil || got.Max != model.DefaultActRows {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		sel  model.Selection
		want string
	}{
		"nothing":            {model.Selection{}, "neither ids nor a filter"},
		"cursor alone":       {model.Selection{Filter: model.Filter{After: "x", Limit: 3}}, "neither ids nor a filter"},
		"negative max":       {model.Selection{IDs: []string{"a"}, Max: -1}, "Max -1"},
		"max above":          {model.Selection{IDs: []string{"a"}, Max: model.MaxActRows + 1}, "Max 100001"},
		"negative OlderThan": {model.Selection{Filter: model.Filter{OlderThan: -time.Second}}, "OlderThan -1s"},
	} {
		if _, err := c.sel.WithDefaults(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want it to contain %q", name, err, c.want)
		}
	}
}

func TestActText(t *testing.T) {
	t.Parallel()
	a := model.OperatorAct{
		Selection: model.Selection{IDs: []string{"a", "b"}, Filter: model.Filter{
			Service: "orders", Status: model.Dead, Exchange: "ex", RoutingKey: "r k", Code: model.CodeNoRoute,
			Key: "k", OlderThan: time.Hour,
		}},
		Reason: "INC-7\nforged line",
	}
	want := `INC-7 forged line [2 ids service="orders" status="DEAD" exchange="ex" routing_key="r k" code="312" ` +
		`key="k" older=1h0m0s]`
	if got := a.Text(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEditKeepsWhatItDoesNotName: properties that are not edited stay byte for byte, also
// when they were written by hand.
func TestEditKeepsWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	row := model.TransMessage{
		ID: model.NewID(), Exchange: "ex", RoutingKey: "rk", MessageKey: "k", Payload: []byte("old"),
		Properties: []byte(`{ "v": 1, "type": "t", "timestamp": 7, "timestamp_defaulted": true }`),
	}
	want, body := row, []byte("new body")
	want.Payload, want.Size = []byte("new body"), len(body)+len(row.Properties)
	if err := (&model.Edit{Body: &body}).Apply(&row); err != nil {
		t.Fatal(err)
	}
	body[0] = 'X' // the caller's again
	if d := cmp.Diff(want, row); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	props := model.Properties{Type: "t2"}
	if err := (&model.Edit{Properties: &props}).Apply(&row); err != nil {
		t.Fatal(err)
	}
	kept := `{"v":1,"type":"t2","timestamp":7,"timestamp_defaulted":true}`
	if got := string(row.Properties); got != kept {
		t.Errorf("got %s, want the row's timestamp kept: %s", got, kept)
	}
	props.Timestamp = time.Unix(9, 999)
	if err := (&model.Edit{Properties: &props}).Apply(&row); err != nil {
		t.Fatal(err)
	}
	if got, want := string(row.Properties), `{"v":1,"type":"t2","timestamp":9}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEditRefusals(t *testing.T) {
	t.Parallel()
	long, empty := strings.Repeat("x", 256), map[string]any{}
	cc, body := map[string]any{"CC": "q"}, []byte("too long")
	for name, c := range map[string]struct {
		props string
		edit  model.Edit
		want  error
	}{
		"nothing":        {`{"v":1}`, model.Edit{Actor: "ann"}, model.ErrInvalid},
		"long key":       {`{"v":1}`, model.Edit{RoutingKey: &long}, model.ErrInvalid},
		"refused header": {`{"v":1}`, model.Edit{Headers: &cc}, model.ErrInvalid},
		"body above its limit": {
			`{"v":1}`, model.Edit{Body: &body, Limits: model.Limits{MaxBody: 3}}, model.ErrInvalid,
		},
		"corrupt":               {`{"v":1,`, model.Edit{Body: &body}, model.ErrCorrupt},
		"corrupt, headers only": {`{"v":1,`, model.Edit{Headers: &empty}, model.ErrCorrupt},
		"newer, all replaced": {
			`{"v":3}`, model.Edit{Headers: &empty, Properties: &model.Properties{}}, model.ErrNewerCodec,
		},
	} {
		row := model.TransMessage{ID: model.NewID(), Properties: []byte(c.props), Payload: []byte("p")}
		before := row
		if err := c.edit.Apply(&row); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if d := cmp.Diff(before, row); d != "" {
			t.Errorf("%s: a refused edit changed the row:\n%s", name, d)
		}
	}
}
