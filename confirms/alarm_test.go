package confirms_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// After an alarm one message goes alone; the others follow once it is answered. While the
// alarm lasts, what is out is held.
func TestE12_OneCanaryAfterTheAlarm(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	r := newResults(t)
	first := take(t, s, r, p, "", 1)[0]
	must(t, conn.Blocked("low on memory"))
	held := func() (n int) { s.Held(func(confirms.Handler) { n++ }); return n }
	eventually(t, "the send that is out is held", func() bool { return held() == 1 })
	must(t, first.Ack(false))
	r.wait()
	if n := held(); n != 0 {
		t.Errorf("%d sends held after the answer", n)
	}
	must(t, conn.Unblocked(), s.WaitReady(testCtx(t)))
	for range 5 {
		r.sendReserved(s, message(t, "", "k"))
	}
	canary := next(t, p)
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	if m, err := p.NextPublish(ctx); err == nil {
		t.Errorf("tag %d was sent beside the canary", m.Tag)
	}
	must(t, canary.Ack(false))
	for range 4 {
		must(t, next(t, p).Ack(false))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": 6})
	r.want(canary.MessageID, model.Acked, "")
}
