package main

const (
	storePkg = "./store/gormstore/"
)

// ofStore are faults in the statements and in what their errors mean.
func ofStore() []mutant {
	settle := "store/gormstore/settle.go"
	fence := mutant{name: "store/settle-without-version", check: accept("sigstop"), edits: []edit{
		{settle, "case f.version != list[i].Version || f.epoch", "case f.epoch"},
		{settle, " WHERE id = ?8 AND version = ?9\"", " WHERE id = ?8 AND ?9 >= 0\""},
		{settle, "COLLATE ascii_bin AND t.version = v.version ", "COLLATE ascii_bin "},
		{settle, "WHERE t.id = v.id AND t.version = v.version\"", "WHERE t.id = v.id\""},
	}}
	return append(append(ofKeys(), ofHandles()...), append(ofClaim(), []mutant{
		fence,
		one("store/discarded-rows-come-back", "store/gormstore/restore.go",
			"ok && discarded >= t.CreatedAt {", "ok && discarded == math.MaxInt64 {",
			test(storePkg, "TestRestoreLeavesDiscardedRows")),
		one("store/collations-are-all-right", "store/gormstore/columns.go",
			"wanted[i].collation == collation {", "wanted[i].collation != \"\" {",
			test(storePkg, "TestT2_AConvertedTableIsNamedWithItsMend")),
		one("store/connections-are-not-strict", "store/mysql/dial.go",
			",STRICT_TRANS_TABLES", ",ANSI_QUOTES",
			test(storePkg, "TestT2_EveryOwnConnectionIsStrict")),
		one("store/migrations-take-no-turns", "store/migrations/turn.go",
			`"SELECT GET_LOCK("+turnName+", 1)"`, `"SELECT LENGTH("+turnName+") > 0"`,
			test(storePkg, "TestT3_TenFirstStartsAtOnce")),
		one("store/version-table-without-its-row-is-whole", "store/migrations/versions.go",
			"NOT EXISTS (SELECT 1 FROM", "NOT EXISTS (SELECT 1 WHERE 0 = %[3]d UNION ALL SELECT 1 FROM",
			test(storePkg, "TestT3_TheFirstCauseIsShown")),
		one("store/absence-is-asked-of-anybody", "store/gormstore/readback.go",
			"len(missing) > 0 && s.d.name", "len(missing) > 1000 && s.d.name",
			test(storePkg, "TestB3_MissingIsAskedOfThePrimary")),
		one("store/absence-is-read-without-a-lock", "store/gormstore/readback.go",
			"q, missing, s.d.forUpdate)", "q, missing, \"\")",
			test(storePkg, "TestB3_MissingIsAskedOfThePrimary")),
		one("store/lost-answer-is-certain", "store/gormstore/known.go",
			"\treturn classUnknown\n}\n\n// needsReprepare", "\treturn classRefused\n}\n\n// needsReprepare",
			accept("certainty")),
		one("store/unknown-insert-is-not-repeated", "store/gormstore/insert.go",
			"return c == classUnknown || away", "return c == classUnknown && len(units) == 0 || away",
			accept("certainty")),
		one("store/landed-insert-is-left-to-others", "store/gormstore/resolve.go",
			"&& u.unsure && have.Epoch ==", "&& false && have.Epoch ==",
			test(storePkg, "TestB2_ALandedInsertIsOurs")),
		one("store/neighbours-of-a-conflict-forgotten", "store/gormstore/inserttx.go",
			"if in += n; in == len", "if in = n; in == len",
			test(storePkg, "TestA3_ARowGoneByThenIsStoredAgain")),
		one("store/other-content-is-the-same", "store/gormstore/resolve.go",
			"case !model.SameContent(have, want):", "case false:",
			test(storePkg, "TestConformance", "TestA3_InsertTxTellsEachRow")),
	}...)...)
}

// ofKeys are rows taken for others with their ids.
func ofKeys() []mutant {
	const ids = "ids := make([]string, len(keys))\n\tfor i, k := range keys {\n\t\tids[i] = k.ID\n\t}\n"
	return []mutant{
		one("store/retry-of-what-is-sent", "store/gormstore/query.go",
			`s.d.now + " AND NOT " + s.d.leased())`, "s.d.now)",
			check{pkg: storePkg, tests: "^TestConformance$/^sqlite$/^B4_"}),
		one("store/retry-before-its-time", "store/gormstore/query.go",
			"if !f.Early {", "if false {",
			check{pkg: storePkg, tests: "^TestConformance$/^sqlite$/^B4_"}),
		one("store/epochs-all-equal", "model/id.go",
			"return 1 + rand.IntN(maxFirstEpoch-1)", "return 1 + rand.IntN(1)",
			test("./publisher/", "TestA1_OfTwoRowsWithOneIDTheCommittedOneIsSent")),
		one("store/delete-without-epoch", "store/gormstore/delete.go",
			"cond, args := s.d.inKeys(\"m.\", keys)\n",
			ids+"\tcond, args := s.d.in(ids)\n\tcond = \"m.id \" + cond\n",
			test(storePkg, "TestA2_AnotherLifeOfAnIDIsNotTouched")),
		one("store/not-before-is-no-bound", "store/gormstore/dialect.go",
			"return \"GREATEST(\"", "return \"LEAST(\"",
			test(storePkg, "TestConformance")),
		one("store/waiting-rows-look-old", "store/gormstore/stats.go",
			"if g.timed && g.status == model.Ready {", "if g.timed && g.status == \"\" {",
			test(storePkg, "TestConformance")),
		one("store/settle-without-epoch", "store/gormstore/settle.go",
			"|| f.epoch != list[i].Epoch:", "|| false:",
			test(storePkg, "TestA2_AnotherLifeOfAnIDIsNotTouched")),
	}
}

// ofHandles are handles of callers that are taken for transactions.
func ofHandles() []mutant {
	const file = "store/gormstore/txguard.go"
	return []mutant{
		one("store/connection-is-a-transaction", file,
			"dialectPostgres && !isTx:", "dialectPostgres && !isTx && false:",
			test(storePkg, "TestB4_HandleWithoutATransactionIsRefused")),
		one("store/texts-in-the-sessions-charset", "store/gormstore/bind.go",
			"if !s.d.plain(args) {", "if false {",
			test(storePkg, "TestT1_NoSessionAltersWhatIsStored")),
		one("store/sqlite-is-not-asked", file,
			"case err == nil:\n\t\treturn errNoTx", "case err == nil:\n\t\treturn nil",
			test(storePkg, "TestB4_InterruptedWriteOnSQLite")),
	}
}

// ofClaim are faults in the claim.
func ofClaim() []mutant {
	const file = "store/gormstore/claim.go"
	return []mutant{
		one("store/claim-keeps-the-version", file,
			"SET version = version+1, \"+\n", "SET version = version, \"+\n",
			test(storePkg, "TestConformance")),
		one("store/claim-waits-for-locks", file,
			"LIMIT ?\" + s.d.skipLocked", "LIMIT ?\" + s.d.forUpdate",
			test(storePkg, "TestC36_OpenClaimsBlockNobody")),
	}
}
