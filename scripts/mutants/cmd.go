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
