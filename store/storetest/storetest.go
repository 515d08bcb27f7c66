// Package storetest is the conformance suite of stores of trans messages: every store
// passes it unchanged. It judges by results alone, and compares times only with the
// store's own clock.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Store is what publisher, compensator and operators call of a store.
type Store interface {
	Insert(context.Context, []model.Draft) ([]model.Stored, error)
	ReadBack(ctx context.Context, ids []string) (map[string]model.RowState, error)
	Renew(ctx context.Context, instance string, keys []model.RowKey, lease time.Duration) ([]string, error)
	Extend(ctx context.Context, held []model.Held, lease time.Duration) (int, error)
	Services(context.Context) ([]string, error)
	Claim(context.Context, model.Claim) (model.Claimed, error)
	Settle(context.Context, []model.Settlement) ([]model.Settled, error)
	Restore(context.Context, []model.TransMessage, []model.Settlement) ([]bool, error)
	Delete(context.Context, []model.RowKey) (int, error)
	List(context.Context, model.Filter) ([]model.TransMessage, error)
	Show(ctx context.Context, id string) (model.TransMessage, []model.Event, error)
	Stats(ctx context.Context, service string) ([]model.Stats, error)
	OldestDue(ctx context.Context, service string) (time.Duration, error)
	Now(context.Context) (int64, error)
	Ping(context.Context) error
	MaxBody() int
	Close() error
	Operations
}

// part is one test of the suite.
type part struct {
	name string
	test func(*testing.T, Store)
}

// Run runs the suite. open returns an empty store of its own for each call and closes
// it when the test ends.
func Run(t *testing.T, open func(t *testing.T) Store) {
	t.Helper()
	for _, c := range append(messages(), operations()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

// messages are the tests of a message's way.
func messages() []part {
	return []part{
		{"InsertStoresEveryField", testInsertFields},
		{"C14_BytesAreExact", testBytesAreExact},
		{"C19_LargeBodiesAreWhole", testLargeBodies},
		{"InsertFindsExistingRows", testInsertExisting},
		{"InsertIsAllOrNone", testInsertAllOrNone},
		{"InsertRepeatedIDInOneCall", testInsertRepeats},
		{"InsertAboveOneStatement", testInsertMany},
		{"C35_ConcurrentCallersWithOneID", testInsertOneID},
		{"InsertManyCallers", testInsertCallers},
		{"InsertContext", testInsertContext},
		{"C35_InsertLeftMidwayIsOneRow", testInsertLeft},
		{"C39_IDsAndKeysAreBinary", testBinary},
		{"CloseRefusesInserts", testClose},
		{"ReadBack", testReadBack},
		{"Renew", testRenew},
		{"E12_ExtendIsFenced", testExtend},
		{"ClaimOrderAndFields", testClaimFields},
		{"ClaimBounds", testClaimBounds},
		{"ClaimBytes", testClaimBytes},
		{"ClaimBodies", testClaimBodies},
		{"ClaimAfterCursor", testClaimAfter},
		{"ClaimLeavesWhatIsNotDue", testClaimNotDue},
		{"ClaimAgainAfterLease", testClaimLease},
		{"ClaimRefusesBadBounds", testClaimInvalid},
		{"C36_ClaimsSplitTheRows", testClaimsSplit},
		{"SettleReady", testSettleReady},
		{"SettleDead", testSettleDead},
		{"SettleDeferredChangesNoCause", testSettleDeferred},
		{"SettleFence", testSettleFence},
		{"SettleManyMixed", testSettleMany},
		{"C42_UnchangedValuesAreDone", testUnchanged},
		{"DeleteGuardsEpoch", testDelete},
		{"Restore", testRestore},
		{"Services", testServices},
		{"Stats", testStats},
		{"StatsOfAClockGoneBack", testStatsAhead},
		{"ListFilters", testList},
		{"ShowUnknownID", testShowUnknown},
		{"C34_PublishersAndClaimers", testRivals},
	}
}

// operations are the tests of operators' acts.
func operations() []part {
	return []part{
		{"C66_DeadIsToldListedReplayedDiscarded", testDeadIsTold},
		{"C68_ReplayTwiceAtOnceIsOnce", testReplayTwice},
		{"C68_ReplaySpreadsDueTimes", testReplaySpread},
		{"Replay", testReplay},
		{"ReplayRefusals", testReplayRefusals},
		{"B4_RetryMakesWaitingRowsDue", testRetry},
		{"B4_RetrySpread", testRetrySpread},
		{"DiscardIsKept", testDiscard},
		{"DiscardReady", testDiscardReady},
		{"Select", testSelect},
		{"OlderThan", testOlderThan},
		{"Groups", testGroups},
		{"ClaimDeadSplitsTheRows", testClaimDeadSplit},
		{"ClaimDeadAgain", testClaimDeadAgain},
		{"PurgeDead", testPurgeDead},
		{"PurgeDeadCountsFromDeath", testPurgeDeadAge},
		{"PurgeEvents", testPurgeEvents},
		{"EditGuardsAgainstLateResults", testEdit},
		{"EditRivals", testEditRivals},
		{"EditProperties", testEditProperties},
		{"EditRefusals", testEditRefusals},
		{"ExportImportIsExact", testExportImport},
		{"ImportRefusals", testImportRefusals},
		{"AddEvent", testAddEvent},
		{"D1_NoTimeWraps", testNoTimeWraps},
		{"D2_NotBeforeIsOfTheStoresClock", testNotBefore},
		{"D2_NotBeforeOutlivesActs", testNotBeforeIsKept},
		{"D4_WhatWaitsIsNotOld", testOldestOfTimed},
		{"D3_FirstFailureIsKept", testFirstFailed},
		{"E4_AnAlertOwedForReadyRows", testExhausted},
		{"E4_ReplayOfExhaustedRows", testReplayExhausted},
		{"E4_WhatIsOwedEndsWithItsRow", testOwedEnds},
		{"E7_RowsThatEndTheirSendersAreClaimedAlone", testLone},
	}
}
