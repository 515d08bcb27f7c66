package main

const (
	consumerPkg = "./consumer/"
	effectPkg   = "./consumer/effect/"
)

// ofConsumer are faults in what becomes of a delivery.
func ofConsumer() []mutant {
	return append(ofInbox(), []mutant{
		one("consumer/acked-before-its-copy", "consumer/copy.go",
			"\tif why := q.send(d, c); why != nil {\n\t\treturn d.drop(why)\n\t}\n\treturn d.ack(Retried)",
			"\tgo func() { _ = q.send(d, c) }()\n\treturn d.ack(Retried)",
			test(consumerPkg, "TestStuckMessageIsGivenBackInTime")),
		one("consumer/x-death-is-copied", "model/replay.go",
			"case \"x-death\", \"x-delivery-count\"", "case \"x-delivery-count\"",
			test(consumerPkg, "TestK16_FailedMessageClimbsTheLadder")),
		one("consumer/wide-headers-are-copied", "consumer/copy.go",
			"\tfor !model.FitsFrame(c, frameMax-1024) {", "\tfor false {",
			test(consumerPkg, "TestOversizedHeadersAreCutInTheCopy")),
		one("consumer/takes-more-while-stuck", "consumer/turn.go",
			"if g.shut && g.tester != d {\n\t\t\treturn false, time.Time{}",
			"if g.shut && false {\n\t\t\treturn false, time.Time{}",
			test(consumerPkg, "TestK5_MissingDeadLetterExchange")),
		one("consumer/unavailable-costs-an-attempt", "consumer/work.go",
			"\tcase answerUnavailable:\n\t\tq.isAway(d, q.away, err.Error())\n\t\treturn q.again(d, 0)\n", "",
			test(consumerPkg, "TestUnavailableCostsNoAttempt")),
		{
			name: "consumer/suspects-among-others", check: test(consumerPkg, "TestK1_OnlyTheKillerIsADeadLetter"),
			edits: []edit{
				{"consumer/shift.go", "\tcase d.suspect:\n\t\tq.setAside(d)\n\t\treturn nextAlone, true\n", ""},
				{"consumer/turn.go", "\tif d.suspect {\n\t\treturn q.turnAlone(d)\n\t}\n", ""},
				{"consumer/shift.go", "s.alone && !d.suspect && !q.cfg.Ordered", "s.alone && !q.cfg.Ordered"},
			},
		},
		one("consumer/crashes-without-bound", "consumer/suspect.go",
			"\tif d.crashes >= q.cfg.MaxCrashes {", "\tif d.crashes >= 100*q.cfg.MaxCrashes {",
			test(consumerPkg, "TestK1_OnlyTheKillerIsADeadLetter")),
		one("consumer/counter-not-asked", "consumer/suspect.go",
			"\tcase n > q.cfg.MaxCrashes:", "\tcase n < 0:",
			test(consumerPkg, "TestK14_OrderedAttemptsAreBoundedOverProcesses")),
		one("consumer/login-not-renewed", "consumer/session.go",
			"case given == se.login || user != se.login.User:", "case given != broker.Login{}:",
			test(consumerPkg, "TestE1_ConsumersLoginIsRenewedOnTheOpenConnection")),
		one("consumer/attempts-begin-anew", "consumer/convert.go",
			"\tm.Attempt += count(h, model.HeaderAttempts)\n", "",
			test(consumerPkg, "TestK14_AttemptsAreTheMessages")),
		one("consumer/step-age-forgets", "consumer/steps.go",
			"m.left > 0 {", "m.left > 1 {",
			test(consumerPkg, "TestStepAges")),
	}...)
}

// ofInbox are faults in what makes one effect of several deliveries.
func ofInbox() []mutant {
	handle := "consumer/effect/handle.go"
	return []mutant{
		one("inbox/no-record", handle,
			"\tif err := d.record(ctx, tx); err != nil {\n\t\treturn err\n\t}\n", "",
			test(effectPkg, "TestASecondDeliveryIsSkipped")),
		one("inbox/repeats-not-told", handle,
			"if err == nil && !first {", "if err == nil && first && !first {",
			test(effectPkg, "TestASecondDeliveryIsSkipped")),
		one("inbox/overlooked-deadlock-is-success", handle,
			"if err == nil && !held {", "if err == nil && held && !held {",
			test(effectPkg, "TestAnOverlookedDeadlockIsNoSuccess")),
		one("inbox/rivals-cost-an-attempt", handle,
			"\tcase model.FaultRivals:\n\t\treturn consumer.Busy(err)\n\tcase model.FaultAway, model.FaultLost:",
			"\tcase model.FaultAway, model.FaultLost:",
			test(effectPkg, "TestSomebodyElseIsAtIt")),
		one("inbox/one-record-for-all-consumers", "consumer/effect/once.go",
			"Consumer: o.cfg.Consumer, Formerly", "Consumer: \"all\", Formerly",
			test(effectPkg, "TestConsumersHaveAnEffectEach")),
	}
}
