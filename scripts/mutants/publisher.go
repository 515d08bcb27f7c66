package main

const publisherPkg = "./publisher/"

// ofPublisher are faults in who sends what, and when.
func ofPublisher() []mutant {
	return []mutant{
		one("publisher/lease-counted-from-after-the-insert", "publisher/publish.go",
			"stored[i] == model.StoredNew {\n\t\t\tf.send(since)",
			"stored[i] == model.StoredNew {\n\t\t\tf.send(time.Now())",
			test(publisherPkg, "TestLeaseIsCountedFromBeforeTheInsert")),
		one("publisher/send-without-a-budget", "publisher/flight.go",
			"Within: f.p.cfg.SendBudget", "Within: 0*f.p.cfg.SendBudget",
			test(publisherPkg, "TestLeaseIsCountedFromBeforeTheInsert")),
		one("publisher/no-lease-for-what-it-sends", "publisher/publish.go",
			"d.Delay = p.cfg.Grace", "d.Delay = 0*p.cfg.Grace",
			test(publisherPkg, "TestPublishDecidesWhoSends")),
		one("publisher/not-before-by-the-process's-clock", "publisher/flight.go",
			"return f.row.NotBefore > 0", "return f.row.NotBefore > time.Now().UnixMilli()",
			test(publisherPkg, "TestD2_TheDatabasesClockDecidesNotBefore")),
		one("publisher/repeat-is-sent-again", "publisher/publish.go",
			"if f.reserved && stored[i] == model.StoredNew {", "if f.reserved && stored[i] != 0 {",
			test(publisherPkg, "TestC35_SameIDIsOneMessage", "TestPublishDecidesWhoSends")),
		one("publisher/body-not-copied", "model/validate.go",
			"\tm.Body = append([]byte(nil), m.Body...)\n", "",
			test(publisherPkg, "TestPublishCopies")),
		one("publisher/read-back-skipped", "publisher/commit.go",
			"\tthere, missing := present(flights, states)\n\t// Before",
			"\tthere, missing := flights, flights[:0]\n\t// Before",
			test(publisherPkg, "TestC38_CommitSendsOnlyWhatExists")),
		one("publisher/read-back-without-epoch", "publisher/commit.go",
			"case ok && s.Epoch == f.row.Epoch:", "case ok:",
			test(publisherPkg, "TestA1_OfTwoRowsWithOneIDTheCommittedOneIsSent")),
		one("publisher/failed-publish-is-forgotten", "publisher/commit.go",
			"case len(failed) > 0:", "case len(failed) > 1000:",
			test(publisherPkg, "TestA1_AFailedPublishRefusesTheCommit")),
		one("publisher/open-transaction-not-seen", "publisher/context.go",
			"if t == nil {\n", "if t == nil || call != \"\" {\n",
			test(publisherPkg, "TestA2_CallsOutsideTheOpenTransactionAreRefused")),
		one("publisher/late-commit-without-a-lease", "publisher/commit.go",
			"elapsed(since) <= t.p.cfg.SendBudget/2 {", "elapsed(since) >= 0 {",
			test(publisherPkg, "TestC38_LongTransactionIsReadBackUnderALease")),
		one("publisher/failed-commit-is-certain", "publisher/commit.go",
			"&model.StoreError{Kind: model.ErrStoreUnknown, IDs: flightIDs(flights), Err: err})\n}\n\n// endedBefore",
			"&model.StoreError{Kind: model.ErrNotStored, IDs: flightIDs(flights), Err: err})\n}\n\n// endedBefore",
			test(publisherPkg, "TestA2_AFailedCommitIsUnknown")),
	}
}
