package modeltest_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// publish stores a new message, which the publisher sends or leaves to the compensators.
func (w *walk) publish(t *rapid.T) {
	live := 0
	for _, m := range w.messages {
		if m.row != nil {
			live++
		}
	}
	if live == 3 {
		return // few rows, so that much happens to each
	}
	id, sends := w.newID(), rapid.Bool().Draw(t, "sends")
	d := draft(id, "body 0", sends)
	found, err := w.store.Insert(w.ctx, []model.Draft{d})
	if err != nil || found[0] != model.StoredNew {
		t.Fatalf("insert %s = %v, %v", id, found, err)
	}
	m := &message{accepted: map[int]bool{}, row: &row{Status: model.Ready, Body: "body 0", Due: w.clock}}
	w.messages[id] = m
	if sends {
		m.row.Instance, m.row.Due = "publisher", w.clock+firstLease
		w.flights = append(w.flights, &flight{id: id, sent: d.TransMessage, actor: "publisher"})
	}
}

func draft(id, body string, sends bool) model.Draft {
	m := model.Message{ID: id, Exchange: "x", RoutingKey: "k", Body: []byte(body)}
	d := model.Draft{TransMessage: model.NewTransMessage(service, &m, true)}
	if sends {
		d.ClaimedBy, d.Delay = "publisher", firstLease*time.Minute
	}
	return d
}

// publishAgain repeats an id, as a caller does who does not know whether it was stored.
func (w *walk) publishAgain(t *rapid.T) {
	id := w.pick(t)
	if id == "" || w.messages[id].row == nil {
		return // gone: it would be a new message under an old name
	}
	m := w.messages[id]
	want := model.StoredBefore
	switch {
	case m.row.Body != "body 0":
		want = model.StoredOther
	case m.row.Status == model.Dead:
		want = model.StoredDead
	}
	found, err := w.store.Insert(w.ctx, []model.Draft{draft(id, "body 0", rapid.Bool().Draw(t, "sends"))})
	if err != nil || found[0] != want {
		t.Fatalf("insert %s again = %v, %v; want %v", id, found, err, want)
	}
}

// renew is what the publisher does after a long transaction.
func (w *walk) renew(t *rapid.T) {
	i := slices.IndexFunc(w.flights, func(f *flight) bool { return f.actor == "publisher" && f.sent.Version == 0 })
	if i < 0 {
		return
	}
	f := w.flights[i]
	got, err := w.store.Renew(w.ctx, "publisher", []model.RowKey{{ID: f.id, Epoch: f.sent.Epoch}},
		firstLease*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	m := w.messages[f.id]
	mine := m.row != nil && m.row.Status == model.Ready && m.row.Version == 0 && m.row.Epoch == f.sent.Epoch
	if (len(got) == 1) != mine {
		t.Fatalf("renew %s = %v, want %t", f.id, got, mine)
	}
	if !mine {
		w.land(f) // it does not send
		return
	}
	m.row.Version, m.row.Instance, m.row.Due = 1, "publisher", w.clock+firstLease
	f.sent.Version = 1
}

// claim is one claim of a compensator: exactly what is due, or as much of it as asked.
func (w *walk) claim(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "wait") == 0 {
		w.pass(t, maxDelay)
	}
	actor := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "actor")
	w.claimBy(t, actor, rapid.IntRange(1, 4).Draw(t, "rows"))
}

func (w *walk) claimBy(t *rapid.T, actor string, most int) []*flight {
	due := 0
	for _, m := range w.messages {
		if m.row != nil && m.row.Status == model.Ready && m.row.Due <= w.clock {
			due++
		}
	}
	got, err := w.store.Claim(w.ctx, model.Claim{
		Service: service, Instance: actor, Lease: claimLease * time.Minute, MaxRows: most, MaxBytes: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != min(due, most) {
		t.Fatalf("claimed %d rows of %d due, at most %d", len(got.Rows), due, most)
	}
	var flights []*flight
	for _, r := range got.Rows {
		m := w.messages[r.ID]
		if m.row == nil || m.row.Due > w.clock || m.row.Status != model.Ready {
			t.Fatalf("%s claimed %s, which is not due: %+v", actor, r.ID, m.row)
		}
		m.row.Version++
		m.row.Claims++
		m.row.Instance, m.row.Due = actor, w.clock+claimLease
		if r.Version != m.row.Version || r.Epoch != m.row.Epoch || string(r.Payload) != m.row.Body {
			t.Fatalf("claim returned %+v, want %+v", r, m.row)
		}
		flights = append(flights, &flight{id: r.ID, sent: r, actor: actor})
	}
	w.flights = append(w.flights, flights...)
	return flights
}

// outcomes that an answer may be, and whether the broker then has the message.
func outcomes() []model.Outcome {
	return []model.Outcome{
		{Kind: model.Acked},
		{Kind: model.Acked},
		{Kind: model.Nacked, Code: model.CodeNack},
		{Kind: model.Returned, Code: model.CodeNoRoute},
		{Kind: model.Refused, Code: model.CodeNotFound},
		{Kind: model.Refused, Code: model.CodePrecondition, Permanent: true},
		{Kind: model.Unknown, Code: model.CodeTimeout},
		{Kind: model.Unknown, Code: model.CodeClosed},
		{Kind: model.Deferred, Code: model.CodeNotSent},
	}
}

// answer gives one send its outcome, in time or long after its lease.
func (w *walk) answer(t *rapid.T) {
	open := slices.DeleteFunc(slices.Clone(w.flights), func(f *flight) bool { return f.timedOut })
	if len(open) == 0 {
		return
	}
	f := open[rapid.IntRange(0, len(open)-1).Draw(t, "flight")]
	o := rapid.SampledFrom(outcomes()).Draw(t, "outcome")
	// After an unknown outcome the broker has it or not; a part of a fan-out may, after a nack.
	has := o.Kind == model.Acked || o.Kind == model.Unknown && rapid.Bool().Draw(t, "accepted")
	w.tell(t, f, o, has)
}

// tell is an outcome on its way to the table.
func (w *walk) tell(t *rapid.T, f *flight, o model.Outcome, has bool) {
	m, b := w.messages[f.id], w.batchers[f.actor]
	if has {
		f.accepted = true
		m.accepted[f.sent.Epoch] = true
	}
	result := &settle.Result{Row: &f.sent, Outcome: o}
	b.Add(result)
	if err := b.Flush(w.ctx); err != nil {
		t.Fatal(err)
	}
	m.settle(f, o, w.clock)
	if o.Kind == model.Unknown && o.Code == model.CodeTimeout && f.accepted {
		f.timedOut, f.lateAck = true, func() { b.LateAck(result) }
		return
	}
	w.land(f)
}

func (w *walk) land(f *flight) {
	w.flights = slices.DeleteFunc(w.flights, func(x *flight) bool { return x == f })
}

// lateAck is the broker's ack after the timeout.
func (w *walk) lateAck(t *rapid.T) {
	i := slices.IndexFunc(w.flights, func(f *flight) bool { return f.timedOut })
	if i < 0 {
		return
	}
	f := w.flights[i]
	f.lateAck()
	if err := w.batchers[f.actor].Flush(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.messages[f.id].acked(f)
	w.land(f)
}

// crash ends a process with all its sends; the broker may have taken any of them.
func (w *walk) crash(t *rapid.T) {
	actor := rapid.SampledFrom(actors()).Draw(t, "actor")
	if err := w.batchers[actor].Close(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.newBatcher(actor)
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool {
		if f.actor == actor && rapid.Bool().Draw(t, "accepted") {
			w.messages[f.id].accepted[f.sent.Epoch] = true
		}
		return f.actor == actor
	})
}

// timePasses moves the database's clock on: leases end, rows become due.
func (w *walk) timePasses(t *rapid.T) {
	w.pass(t, rapid.SampledFrom([]int{baseDelay, firstLease, claimLease, maxDelay}).Draw(t, "minutes"))
}

func (w *walk) pass(t *rapid.T, minutes int) {
	w.clock += minutes
	_, err := w.db.ExecContext(w.ctx, "UPDATE trans_message SET next_attempt_at = next_attempt_at - ?",
		(time.Duration(minutes) * time.Minute).Milliseconds())
	if err != nil {
		t.Fatal(err)
	}
}
