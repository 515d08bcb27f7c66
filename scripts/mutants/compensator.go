package main

const compensatorPkg = "./compensator/"

// ofCompensator are faults in the second way of a message, and in the alerts.
func ofCompensator() []mutant {
	return []mutant{
		one("compensator/commands-without-settings", "compensator/complete.go",
			`return line + " --config " + commandline.Quoted(c.OperatorConfig)`, "return line",
			accept("operator --store mysql")),
		one("compensator/unnamed-service-unsaid", "compensator/names.go",
			"n.look(ctx, n.unnamed)", "_ = n.unnamed", test(compensatorPkg, "TestS2_ServicesThatDoNotMatchAreSaid")),
		one("compensator/unsent-rows-not-handed-back", "compensator/run.go",
			"defer func() { r.handBack(claimed.Rows[next:]) }()", "defer func() { r.handBack(claimed.Rows[:0]) }()",
			test(compensatorPkg, "TestC44_SenderLostInTheMiddleHandsBack")),
		one("compensator/suspect-sent-with-others", "compensator/send.go",
			"row.LastCode == model.CodeSuspect || ", "",
			test(compensatorPkg, "TestSuspectsGoAlone")),
		one("compensator/suspects-do-not-acquit", "compensator/jury.go", "len(j.routes[a.outcome.Reply]) > 1", "false",
			test(compensatorPkg, "TestE5_SuspectsOfTwoRoutesAcquitEachOther")),
		one("compensator/poison-acquitted-for-ever", "compensator/jury.go", "row.Closes >= closesMost", "false",
			test(compensatorPkg, "TestE5_PoisonRowsDoNotAcquitEachOtherForEver")),
		one("compensator/poison-without-healthy-sends", "compensator/jury.go", "h.acks > h.marks[id]", "true",
			test(compensatorPkg, "TestE5_PoisonRowsDoNotAcquitEachOtherForEver")),
		one("compensator/row-that-kills-is-never-alone", "compensator/claim.go",
			"LoneFrom: crashLoopClaims", "LoneFrom: 0",
			test(compensatorPkg, "TestE7_ARowThatKillsItsProcessGoesDead")),
		one("compensator/row-that-kills-is-sent-for-ever", "compensator/crashloop.go",
			"row.LoneClaims <= loneMost", "true",
			test(compensatorPkg, "TestE7_ARowThatKillsItsProcessGoesDead")),
		one("compensator/age-counts-from-the-insert", "compensator/send.go",
			"Age: row.FailingFor(row.UpdatedAt)", "Age: model.MillisToDuration(row.UpdatedAt - row.CreatedAt)",
			test(compensatorPkg, "TestD3_MaxAgeCountsFromTheFirstAnsweredFailure")),
	}
}
