package main

// registry returns every check by name. A check lives in a file of its own and
// is listed here.
func registry() map[string]check {
	all := []check{
		demoCheck(),
		countsCheck(),
		transactionsCheck(),
		killCheck(),
		outageCheck(),
		returnStormCheck(),
		bystandersCheck(),
		roundtripCheck(),
		replicasCheck(),
		sigstopCheck(),
		fairCheck(),
		upgradeCheck(),
		recoverCheck(),
		poisonCheck(),
		secretsCheck(),
		deadCheck(),
		alertsCheck(),
		forcedClosesCheck(),
		confirmTimeoutsCheck(),
		hostileCheck(),
		handlerCheck(),
		testTwiceCheck(),
		identityCheck(),
		sessionsCheck(),
		operatorCheck(),
		clocksCheck(),
		sickPartCheck(),
		certaintyCheck(),
		crashPoisonCheck(),
		ladderCheck(),
		consumerFaultsCheck(),
		oneEffectCheck(),
		topologyCheck(),
		rejectsCheck(),
		replayLineageCheck(),
	}
	byName := make(map[string]check, len(all))
	for _, c := range all {
		byName[c.name] = c
	}
	return byName
}
