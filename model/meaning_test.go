package model_test

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// AMQP's numbers come with words, also where no text came with them.
func TestF2_CausesAreShownInWords(t *testing.T) {
	t.Parallel()
	for code, want := range map[model.CauseCode]string{
		model.CodeNoRoute: "312 no route", model.CodeAccessRefused: "403 access refused",
		model.CodeNotFound: "404 no such exchange", model.CodePrecondition: "406 precondition failed",
		model.CodeNack: "nack", "": "", "599": "599",
	} {
		if got := code.Words(); got != want {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
		if got := code.Cause(""); got != want {
			t.Errorf("%q without a text: got %q, want %q", code, got, want)
		}
	}
	if got := model.CodeNotFound.Cause("NOT_FOUND"); got != "404 NOT_FOUND" {
		t.Errorf("with a text: %q", got)
	}
	if got := model.CodeNotFound.Cause("404 NOT_FOUND"); got != "404 NOT_FOUND" {
		t.Errorf("with a text that has the code: %q", got)
	}
	a := model.Alert{Kind: model.AlertDead, Count: 1, Code: model.CodeNotFound}
	if got := a.String(); !strings.Contains(got, "404 no such exchange") {
		t.Errorf("alert %q", got)
	}
	o := model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	if got := o.String(); got != "returned (312 no route)" {
		t.Errorf("outcome %q", got)
	}
}
