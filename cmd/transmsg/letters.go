package main

import "github.com/spf13/cobra"

// lettersCommand groups the verbs on dead letters.
func (a *app) lettersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead-letters",
		Short: "List, show and repair the messages that consumers gave up",
		Long: "List, show and repair dead letters: messages that a consumer gave up, and that `transmsg\n" +
			"compensator --collect` has moved into the store. OPEN ones wait for a person, PARKED ones were\n" +
			"sent back and given up again. Verbs that change them show what they would do unless --yes is\n" +
			"given, and write who did it, and why, into the history. Messages that were not sent yet are\n" +
			"another table: transmsg messages.",
		RunE: groupRun,
	}
	cmd.AddCommand(
		a.lettersListCommand(), a.letterShowCommand(), a.lettersGroupsCommand(), a.lettersReplayCommand(),
		a.lettersDiscardCommand(), a.letterEditCommand(), a.lettersEraseCommand(), a.lettersExportCommand(),
		a.lettersImportCommand(),
	)
	return cmd
}
