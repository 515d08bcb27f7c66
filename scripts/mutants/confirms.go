package main

const (
	confirmsPkg = "./confirms/"
	breakerPkg  = "./compensator/" // where the breaker's tests are
)

// ofConfirms are faults in what a send's outcome is.
func ofConfirms() []mutant {
	return append(ofShares(), []mutant{
		one("confirms/returns-not-drained", "confirms/track.go",
			"\tc.drainReturns()\n\ttype decision", "\ttype decision",
			test(confirmsPkg, "TestC01_ReturnsBeforeACoalescedAck")),
		one("confirms/not-mandatory", "confirms/channel.go",
			"!m.AllowUnroutable, false, publishing", "false, false, publishing",
			test(confirmsPkg, "TestC01_ReturnedIsNeverAcked")),
		one("confirms/returns-channel-too-small", "confirms/channel.go",
			"make(chan amqp.Return, r.window)", "make(chan amqp.Return, 1)",
			test(confirmsPkg, "TestC02_NoReturnIsDroppedWhileAHandlerIsSlow")),
		one("confirms/close-taken-as-nack", "confirms/outcome.go",
			"\tcase open:\n", "\tcase open || !acked:\n",
			test(confirmsPkg, "TestC04_NackOnAnOpenChannelAndCloseAreTwoThings")),
		one("confirms/unknown-taken-as-ack", "confirms/track.go",
			"c.report(p, unknown(code, text))", "c.report(p, model.Outcome{Kind: model.Acked, Code: code, Text: text})",
			test(confirmsPkg, "TestConnectionCloseIsUnknown", "TestC04_ConnectionsClosedByTheBroker")),
		one("confirms/timeout-taken-as-ack", "confirms/overdue.go",
			"p.finish(unknown(model.CodeTimeout, \"no confirm within \"+c.se.s.cfg.ConfirmTimeout.String()))",
			"p.finish(model.Outcome{Kind: model.Acked})",
			test(confirmsPkg, "TestTimedOutSendLeavesTheChannelAndComesBackLate", "TestC09_StuckOldestHoldsNobodyUp")),
		one("confirms/slot-freed-at-timeout", "confirms/window.go",
			"p.timedOut = true\n", "p.timedOut = true\n\t\t\tw.free(p.Message.ID, p.size())\n",
			check{pkg: confirmsPkg, tests: "^TestWindow$", flags: []string{"-rapid.nofailfile"}}),
		one("confirms/late-ack-dropped", "confirms/track.go",
			"\t\tp.Handler.LateAck()\n", "",
			test(confirmsPkg, "TestC09_LateAcksAreTold")),
		one("confirms/retired-channels-without-bound", "confirms/session.go",
			"if n > maxRetired {", "if n > 1000*maxRetired {",
			test(confirmsPkg, "TestC30_TooManyRetiredChannelsCostTheConnection")),
		one("confirms/sent-after-its-time", "confirms/pending.go",
			"(elapsed > within || ", "(",
			test(confirmsPkg, "TestLate", "TestTooLateIsNotSent")),
		one("confirms/sent-through-a-closed-gate", "confirms/channel.go",
			"now := time.Now(); !c.role.gate.get() || p.late(now)", "now := time.Now(); p.late(now)",
			test(confirmsPkg, "TestC27_NothingPassesAClosedGate")),
		one("confirms/validator-skipped", "confirms/channel.go",
			"check(p.Message, limits); err != nil {", "check(p.Message, limits); false && err != nil {",
			test(confirmsPkg, "TestC16_C22_C23_PoisonIsRefusedBeforeTheWire")),
		one("confirms/not-persistent", "confirms/publishing.go",
			"amqp.Persistent", "amqp.Transient",
			test(confirmsPkg, "TestC08_MessagesArePersistent")),
		one("confirms/same-id-twice-in-a-window", "confirms/window.go",
			"return duplicate\n", "return admitted\n",
			test(confirmsPkg, "TestSameIDInFlightOnTheChannelIsDeferred")),
		one("confirms/silent-peer-is-kept", "confirms/watchdog.go",
			"case quiet >= quietLimit:", "case quiet >= 1000*quietLimit:",
			test(confirmsPkg, "TestSilentPeerIsGivenUp")),
		one("confirms/bystander-is-suspect", "confirms/outcome.go",
			"out[i] = namesMessage(cause, p.Message)", "out[i] = namesMessage(cause, p.Message) || true",
			test(confirmsPkg, "TestC03_OnlySendsToTheNamedExchangeAreSuspect")),
	}...)
}

// ofShares are faults in what a blocked broker and a silent queue take from the others.
func ofShares() []mutant {
	return []mutant{
		one("confirms/no-canary-after-an-alarm", "confirms/channel.go",
			"if c.se.canary.Load() {\n\t\treturn 1", "if c.se.canary.Load() {\n\t\treturn c.win.max",
			test(confirmsPkg, "TestE12_OneCanaryAfterTheAlarm")),
		one("confirms/leases-run-out-in-an-alarm", "internal/settle/keep.go",
			"if len(rows) == 0 {", "if len(rows) >= 0 {",
			test(breakerPkg, "TestE12_AnAlarmLongerThanALeaseRepeatsNothing")),
		one("confirms/route-without-a-share", "confirms/share.go",
			"\tcase w.silent(s):\n\t\treturn silent\n\tcase w.vacant(s) == 0:\n\t\treturn crowded\n", "",
			test(confirmsPkg, "TestE3_OneSilentQueueLeavesTheOthersAlone")),
		one("confirms/overdue-route-closes-the-sender", "confirms/overdue.go",
			"stalled := c.stalled\n", "stalled := true\n",
			test(confirmsPkg, "TestE3_OneOverdueSendGatesNobody")),
		one("confirms/unanswered-send-is-kept-for-ever", "confirms/overdue.go",
			"return (n >= most || old) &&", "return (n >= most || old && false) &&",
			test(confirmsPkg, "TestE3_CopiesOfOneRowAreBounded")),
	}
}

// ofBreaker are faults in what waits because the broker refuses it.
func ofBreaker() []mutant {
	const file = "internal/breaker/breaker.go"
	return []mutant{
		one("breaker/never-opens", file,
			"if b.n.Load() == 0 {\n\t\treturn nil", "if b.n.Load() >= 0 {\n\t\treturn nil",
			test(breakerPkg, "TestC48_RevokedExchangeWaitsForProbes")),
		one("breaker/never-closes", file,
			"x := b.broken[t]\n\tdelete(b.broken, t)", "x := b.broken[t]",
			test(breakerPkg, "TestBreakerClearsTheInnocent", "TestBreakerTriesAgainAfterAnInconclusiveProbe")),
		one("breaker/suspect-acquitted-at-once", file,
			"if x := b.entry(t); x != nil && !x.proven {", "if x := b.broken[t]; x != nil && !x.proven {",
			test(breakerPkg, "TestBreakerClearsTheInnocent", "TestC48_RevokedExchangeWaitsForProbes")),
		one("breaker/probe-lost", file,
			"\t\tb.release(*probe) // whatever", "\t\t_ = probe // whatever",
			test(breakerPkg, "TestBreakerTriesAgainAfterAnInconclusiveProbe")),
	}
}
