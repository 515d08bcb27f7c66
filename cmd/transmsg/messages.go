package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/store/gormstore"
)

// messagesCommand groups the verbs on stored messages.
func (a *app) messagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "List, show and repair stored messages",
		Long: "List, show and repair what the store keeps: messages that wait (READY) and messages that were given up\n" +
			"(DEAD). Verbs that change messages show what they would do unless --yes is given, and write who did\n" +
			"it, and why, into the messages' history.",
		RunE: groupRun,
	}
	cmd.AddCommand(
		a.listCommand(), a.showCommand(), a.groupsCommand(), a.replayCommand(), a.discardCommand(),
		a.editCommand(), a.exportCommand(), a.importCommand(),
	)
	return cmd
}

// openStore opens the database of an operators' verb.
func (a *app) openStore(ctx context.Context, o *storeOptions, log *slog.Logger) (*gormstore.Store, error) {
	dsn, err := o.resolve(a, "")
	if err != nil {
		return nil, err
	}
	return openDSN(ctx, dsn, gormstore.Options{Prefix: o.prefix, Logger: log})
}

// openTimeout bounds the opening of a database: a server of another kind may take the
// connection and say nothing.
const openTimeout = 20 * time.Second

func openDSN(ctx context.Context, dsn string, options gormstore.Options) (*gormstore.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	s, err := gormstore.Open(ctx, dsn, options)
	return s, withNextStep(err)
}
