package main

// ofLetters are faults in what becomes of dead letters.
func ofLetters() []mutant {
	const waiting = " AND status IN ('OPEN','PARKED')"
	conform := test(storePkg, "TestLettersConformance")
	return []mutant{
		{name: "letters/second-click-sends-again", check: accept("replay-lineage --store mysql"), edits: []edit{
			{"store/gormstore/letters_select.go", "query.WriteString(\"" + waiting + "\")", ""},
			{"store/gormstore/letters_replay.go", waiting + "\"), args...))", "\"), args...))"},
		}},
		one("letters/replay-takes-no-lock", "store/gormstore/letters_select.go",
			`" ORDER BY id"+s.d.forUpdate`, `" ORDER BY id"`, conform),
		one("letters/replay-is-not-looked-at-again", "store/gormstore/letters_replay.go",
			`s.lockLetters(ctx, tx, ids, a.Filter, "")`, `s.lockLetters(ctx, tx, ids, model.LetterFilter{}, "")`,
			conform),
		one("letters/without-id-are-merged", "model/letter.go",
			"case len(l.WireID) == 0:", "case false:", accept("rejects --store mysql")),
		one("letters/replay-goes-to-the-exchange", "model/replay.go",
			"if r.ToExchange {", "if true {", accept("rejects --store mysql")),
		one("letters/lineage-is-lost", "model/replay.go",
			"int64(l.Replays)+1, l.ID", "int64(l.Replays)+1, \"\"", accept("replay-lineage --store mysql")),
		one("letters/failed-again-are-not-parked", "model/letter.go",
			"if l.Replays > 0 {", "if l.Replays < 0 {", accept("replay-lineage --store mysql")),
		one("letters/edit-forgets-the-original", "model/letteredit.go",
			"if edited.Original == nil {", "if true {", conform),
		one("letters/told-again-and-again", "compensator/rowalerts.go",
			"case model.AlertLetter, model.AlertParked:\n\t\t\tletters", "case model.AlertTest:\n\t\t\tletters",
			test("./compensator/", "TestDeadLettersAreTold")),
	}
}
