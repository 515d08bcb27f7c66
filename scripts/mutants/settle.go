package main

const settlePkg = "./internal/settle/"

// ofSettle are faults in what becomes of a row, and in the writing of it.
func ofSettle() []mutant {
	return append(ofDecide(), []mutant{
		one("settle/late-ack-of-an-edited-row-unnoticed", "internal/settle/write.go",
			"return nil, b.lateAcks(ctx, keys)", "return nil, nil",
			test("./publisher/", "TestA4_AnAckOfTheOldContentIsNoticed")),
		one("settle/gone-rows-not-restored", "internal/settle/write.go",
			"r.met == model.SettledGone && r.decision.AttemptsDelta > 0", "false && r.met == model.SettledGone",
			accept("return-storm")),
		one("settle/restored-after-unknown", "internal/settle/write.go",
			"r.met == model.SettledGone && r.decision.AttemptsDelta > 0", "r.met == model.SettledGone",
			test(settlePkg, "TestBatcherRestoresGoneRows")),
		one("settle/failures-not-gathered", "internal/settle/failures.go",
			"if f.sends.first(key, fields) {", "if f.sends.first(key, fields) || true {",
			test(settlePkg, "TestS6_EqualFailuresAreGathered")),
		one("settle/failures-not-gathered:operator", "internal/settle/failures.go",
			"if f.sends.first(key, fields) {", "if f.sends.first(key, fields) || true {",
			accept("operator --store mysql")),
		one("settle/failed-writes-not-gathered", "internal/settle/failures.go",
			"if f.writes.first(", "if true || f.writes.first(",
			test(settlePkg, "TestS6_FailedWritesAreGathered")),
		one("settle/failed-writes-of-all-causes-are-one", "internal/settle/failures.go",
			"failedWrite{op, kindOfError(err)}", "failedWrite{op: op}",
			test(settlePkg, "TestS6_FailedWritesAreGathered")),
		one("settle/gathered-failures-forgotten", "internal/settle/batcher.go",
			"\tb.failures.flush()\n", "", test(settlePkg, "TestS6_EqualFailuresAreGathered")),
		one("settle/deletes-unsorted", "internal/settle/write.go",
			"\tslices.SortFunc(keys, func(x, y model.RowKey) int { return cmp.Compare(x.ID, y.ID) })\n", "",
			test(settlePkg, "TestBatcherDeletesAckedAndKeepsTheRest")),
		one("settle/failed-write-forgotten", "internal/settle/queue.go",
			"\t\t\tleft = batch\n", "\t\t\tleft = batch[:0]\n",
			test(settlePkg, "TestC26_FailedWritesAreRetried")),
		one("settle/locked-rows-forgotten", "internal/settle/write.go",
			"if slices.Contains(locked.IDs, id(item)) {", "if false && slices.Contains(locked.IDs, id(item)) {",
			test(settlePkg, "TestOneLockedRowHoldsUpNobody")),
		one("settle/late-ack-ignored", "internal/settle/batcher.go",
			"func (b *Batcher) LateAck(r *Result) {\n", "func (b *Batcher) LateAck(r *Result) {\n\treturn\n",
			test(settlePkg, "TestBatcherLateAckDeletes")),
		one("settle/room-without-bound", "internal/settle/batcher.go",
			"b.Pending()+n <= b.cfg.MaxPending && ", "",
			test(settlePkg, "TestBatcherBoundsAndBatches")),
	}...)
}

// ofDecide are faults in the pure decision.
func ofDecide() []mutant {
	const file, tests = "internal/settle/decide.go", "TestDecide"
	const unknown, counted = "case model.Unknown:\n\t\td.FailuresDelta = 1",
		"case model.Unknown:\n\t\td.AttemptsDelta, d.FailuresDelta = 1, 1"
	return []mutant{
		one("settle/attempt-for-unknown:outage", file, unknown, counted, accept("outage")),
		one("settle/attempt-for-unknown:recover", file, unknown, counted, accept("recover")),
		one("settle/dead-one-early", file, "attempts := f.Attempts + 1;", "attempts := f.Attempts + 2;",
			test(settlePkg, tests)),
		one("settle/dead-one-late", file, "attempts := f.Attempts + 1;", "attempts := f.Attempts;",
			test(settlePkg, tests)),
		one("settle/exhausted-at-the-short-delay", file, "p.LongestDelay(r)", "p.Delay(f.Failures+1, r)",
			test(settlePkg, "TestE4_AttemptsAloneMakeNoYoungRowDead")),
		one("settle/dead-while-young", "model/policy.go", "p.Exhausted(attempts) && age >= p.MinDeadAge",
			"p.Exhausted(attempts)", test(compensatorPkg, "TestS5_EachDefaultAlertCanFire")),
		one("settle/dead-while-nodes-are-down", "model/policy.go", "p.Exhausted(attempts) && age >= p.MinDeadAge",
			"p.Exhausted(attempts)", test(compensatorPkg, "TestE4_NodesThatAreDownMakeNoRowDead")),
		one("settle/exhausted-not-owed", "internal/settle/write.go", "Exhausted: r.decision.Exhausted, ", "",
			test(compensatorPkg, "TestS5_EachDefaultAlertCanFire")),
		one("settle/backoff-without-growth", file, "\t\tdefault:\n\t\t\td.Delay = p.Delay(f.Failures+1, r)",
			"\t\tdefault:\n\t\t\td.Delay = p.Delay(1, r)", test(settlePkg, tests)),
		one("settle/permanent-refusal-not-dead", file, "(o.Kind == model.Refused && o.Permanent) || ", "",
			test(settlePkg, tests)),
		one("settle/deferred-counted", file,
			"case model.Deferred:\n", "case model.Deferred:\n\t\td.AttemptsDelta = 1\n",
			test(settlePkg, tests, "TestC44_OutageSpendsNoAttempt")),
	}
}
