package compensator_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// limitedSender cannot open its second connection.
type limitedSender struct{ *fakeSender }

func (limitedSender) SuspectsError() error { return errors.New("a limit of connections is reached") }

// E11: rows that wait because no second connection can be opened are told of.
func TestE11_SuspectsThatWaitRaiseAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		alerts := &collector{}
		r := start(t, compensator.Config{Store: newStore(), Sender: limitedSender{newSender()}, Alerter: alerts})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := alerts.got()
		if len(got) != 1 || got[0].Kind != model.AlertSuspects ||
			!strings.Contains(got[0].Text, "a limit of connections is reached") {
			t.Errorf("alerts %+v, want one with the cause", got)
		}
		time.Sleep(40 * time.Minute) // it lasts
		r.drained(t)
		if n := len(alerts.got()); n != 3 {
			t.Errorf("%d alerts in 40 minutes, want one every 15", n)
		}
	})
}
