package main

import "github.com/spf13/cobra"

// messagesCommand groups the verbs on stored messages.
func (a *app) messagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "List, show and repair stored messages",
		Long: "List, show and repair what the store keeps: messages that wait (READY) and messages that were " +
			"given up\n" +
			"(DEAD). Verbs that change messages show what they would do unless --yes is given, and write who did\n" +
			"it, and why, into the messages' history.",
		RunE: groupRun,
	}
	cmd.AddCommand(
		a.listCommand(), a.showCommand(), a.historyCommand(), a.groupsCommand(), a.replayCommand(), a.retryCommand(),
		a.discardCommand(),
		a.editCommand(), a.exportCommand(), a.importCommand(),
	)
	return cmd
}
