package commandline_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/commandline"
	"github.com/transmsg/transmsg/model"
)

// Whatever a name holds, a shell takes it as one word of the command.
func TestLinesAreSafeToPaste(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"plain.key", "with space", "it's", "$(touch /tmp/x)", "`id`", `back\slash`, `"double"`, "a;b|c&d", "*", "é",
		"#", "~",
	} {
		line := commandline.List(&model.Alert{Kind: model.AlertOldest, RoutingKey: name})
		args := strings.TrimPrefix(line, "transmsg messages list --status READY --routing-key ")
		if args == line {
			t.Fatalf("%q has another form", line)
		}
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '<%s>' "+args).Output()
		if err != nil || string(got) != "<"+name+">" {
			t.Errorf("%s: the shell sees %s (%v), want <%s>", line, got, err, name)
		}
	}
}

// S4: after the repair nothing waits for its backoff: the alert has the command for that.
func TestS4_AlertsOfWaitingRowsHaveACommand(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.AlertKind{model.AlertExhausted, model.AlertExchange, model.AlertUnread} {
		a := &model.Alert{Kind: kind, Service: "orders", Exchange: "ex", RoutingKey: "k", Code: model.CodeNoRoute}
		line := commandline.Resend(a)
		if want := "transmsg messages retry --service orders --exchange ex --routing-key k --code 312"; line != want {
			t.Errorf("%s: resend %q, want %q", kind, line, want)
		}
	}
	line := commandline.Resend(&model.Alert{Kind: model.AlertOldest, Service: "orders"})
	if line != "transmsg messages retry --service orders" {
		t.Errorf("oldest-ready: resend %q", line)
	}
}
