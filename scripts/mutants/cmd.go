package main

const cmdPkg = "./cmd/transmsg"

// ofCmd are faults in the command line.
func ofCmd() []mutant {
	return []mutant{
		one("cmd/gone-without-history", "cmd/transmsg/messages_show.go",
			"text := fate(id, events)", "text := fate(id, nil)", test(cmdPkg, "TestS7_AGoneMessageIsTold")),
		one("cmd/bare-header", "cmd/transmsg/messages_groups.go",
			"if len(groups) == 0 {", "if false {", test(cmdPkg, "TestS7_NoBareHeader")),
		one("cmd/overridden-unsaid", "cmd/transmsg/settings.go",
			"a.overridden = append(a.overridden, f.Name)", "_ = f", test(cmdPkg, "TestS2_AnOverriddenSettingIsNamed")),
		one("cmd/flag-taken-for-a-value", "cmd/transmsg/settings.go",
			"if err := a.swallowed(cmd); err != nil {", "if err := a.swallowed(cmd); err != nil && false {",
			test(cmdPkg, "TestS8_WrongInputNamesItsCause")),
		one("cmd/unknown-reach-is-a-number", "cmd/transmsg/messages_reach.go",
			"if len(found.Unknown) == 0 {", "if true {", test(cmdPkg, "TestF2_AReplaySaysWhichQueuesItReaches")),
		one("cmd/exchanges-behind-exchanges-unseen", "internal/management/reach.go",
			"taken, exchanges = true, append(exchanges, b.Destination)", "taken = true",
			test("./internal/management", "TestF2_ReachIsWhereTheBrokerRoutes")),
		one("cmd/alternate-exchange-is-none", "internal/management/reach.go",
			"if to, ok := from.Arguments[\"alternate-exchange\"].(string); ok {", "if to, ok := \"\", false; ok {",
			test("./internal/management", "TestF2_WhatIsUnknownIsSaidInWords")),
		one("cmd/header-numbers-of-any-type", "internal/management/match.go",
			"return min(maybe, is(ok && n == want))", "return is(ok && n == want)",
			test("./internal/management", "TestF2_WhatIsUnknownIsSaidInWords")),
		one("cmd/secrets-hidden-everywhere", "cmd/transmsg/redact.go",
			"io.WriteString(r.out, r.inURLs(string(p)))", "io.WriteString(r.out, r.clean(string(p)))",
			test(cmdPkg, "TestS1_NamesThatEqualSecretsStay")),
		one("cmd/errors-as-they-are", "cmd/transmsg/redact.go",
			"text = strings.ReplaceAll(text, part, r.clean(part))", "_ = part",
			test(cmdPkg, "TestS1_NoSecretNoFieldAltered")),
		one("cmd/urls-as-they-are", "cmd/transmsg/redact.go",
			"s = strings.ReplaceAll(s, p[0], p[1])", "_ = p",
			test(cmdPkg, "TestC28_NoSecretInOutput", "TestC28_Redactor")),
	}
}
