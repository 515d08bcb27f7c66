package main

const cmdPkg = "./cmd/transmsg"

// ofCmd are faults in the command line.
func ofCmd() []mutant {
	return []mutant{
		one("cmd/gone-without-history", "cmd/transmsg/messages_show.go",
			"text := fate(id, events)", "text := fate(id, nil)", test(cmdPkg, "TestB7_AGoneMessageIsTold")),
		one("cmd/bare-header", "cmd/transmsg/messages_groups.go",
			"if len(groups) == 0 {", "if false {", test(cmdPkg, "TestB7_NoBareHeader")),
	}
}
