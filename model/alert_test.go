package model_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/commandline"
	"github.com/transmsg/transmsg/model"
)

func deadAlert() *model.Alert {
	return &model.Alert{
		Kind: model.AlertDead, Service: "orders", Exchange: "ex", RoutingKey: "k", Code: model.CodeNoRoute,
		Text: "NO_ROUTE", Count: 3, First: time.Unix(1, 0), Last: time.Unix(61, 0), Instance: "one",
		Sample: model.AlertSample{ID: "id-1", Key: "order-7", Attempts: 2},
	}
}

func TestAlertString(t *testing.T) {
	t.Parallel()
	a := deadAlert()
	a.RoutingKey = "a\nb"
	a.Command = commandline.List(a)
	want := `dead: 3 message(s), service orders, exchange ex, routing key "a\nb", cause 312 NO_ROUTE, ` +
		`sample id-1, key order-7, from 1970-01-01T00:00:01Z to 1970-01-01T00:01:01Z; ` +
		`see: transmsg messages list --status DEAD --service orders --exchange ex --code 312`
	if got := a.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	broken := model.Alert{Kind: model.AlertExchange, Exchange: "ex", Code: "404", Text: "404 NOT_FOUND", Count: 1}
	if got := broken.String(); got != "exchange-broken: 1 message(s), exchange ex, cause 404 NOT_FOUND" {
		t.Errorf("got %s", got)
	}
}

func TestAlertLogValue(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Error("needs attention", "alert", deadAlert())
	for _, want := range []string{
		"alert.kind=dead", "alert.service=orders", "alert.code=312", "alert.count=3", "alert.id=id-1",
		"alert.key=order-7", "alert.attempts=2", "alert.instance=one", "alert.first=",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("line %q lacks %s", b.String(), want)
		}
	}
}

// S3: an alert says where, what it means, how many in all, since when, and what sends them
// again, in one line.
func TestS3_AlertSaysWhatAPersonNeeds(t *testing.T) {
	t.Parallel()
	a := deadAlert()
	a.Environment, a.Meaning, a.Total, a.Oldest = "production", a.Code.Meaning(), 700, time.Unix(0, 0)
	a.Command, a.Resend = commandline.List(a), commandline.Resend(a)
	want := `[production] dead: 3 message(s) of 700 in all, service orders, exchange ex, routing key k, ` +
		`cause 312 NO_ROUTE (no queue is bound for this routing key), sample id-1, key order-7, ` +
		`from 1970-01-01T00:00:01Z to 1970-01-01T00:01:01Z, the oldest since 1970-01-01T00:00:00Z; ` +
		`see: transmsg messages list --status DEAD --service orders --exchange ex --routing-key k --code 312; ` +
		`send again: transmsg messages replay --service orders --exchange ex --routing-key k --code 312`
	if got := a.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a.RoutingKey = "a\nb" // a line without it would replay more
	if line := commandline.Resend(a); line != "" {
		t.Errorf("resend %q for a key that no terminal takes", line)
	}
	a.Kind = model.AlertTest
	if line := commandline.Resend(a); line != "" {
		t.Errorf("resend %q for what has no rows", line)
	}
	for _, code := range []model.CauseCode{
		model.CodeNoRoute, model.CodeAccessRefused, model.CodeNotFound, model.CodePrecondition, model.CodeNack,
		model.CodeClosed, model.CodeTimeout, model.CodeSuspect, model.CodeWrite, model.CodeNotSent,
		model.CodeCorrupt, model.CodeInvalid, model.CodeNewerCodec, model.CodeUnread, model.CodeOther,
		model.CodeCrashLoop,
	} {
		if code.Meaning() == "" {
			t.Errorf("code %s has no meaning in words", code)
		}
	}
}
