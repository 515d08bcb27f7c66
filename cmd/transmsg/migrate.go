package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// dialectDSN lets --print choose the SQL without a server: it is parsed and never dialled.
var dialectDSN = map[string]string{
	"mysql": "mysql://user@host/db", "mariadb": "mysql://user@host/db",
	"postgres": "postgres://user@host/db", "sqlite": "sqlite::memory:",
}

func (a *app) migrateCommand() *cobra.Command {
	var store storeOptions
	var printSQL bool
	var dialect string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables, show their state, or print the SQL",
		Long: "The library never changes your schema; this verb does. `up` applies what is missing (run it once,\n" +
			"from one place), `status` shows what is applied, `--print` prints the SQL for those who apply it\n" +
			"themselves and contacts no server. Migrations only add: the version before still works on the\n" +
			"schema after.",
		Example: "  transmsg migrate up --store mysql://user:password@127.0.0.1:3306/shop\n" +
			"  transmsg migrate --print --dialect postgres",
	}
	store.bind(cmd.PersistentFlags(), "required, except for --print with --dialect")
	cmd.Flags().BoolVar(&printSQL, "print", false, "print the SQL of all migrations and contact no server")
	cmd.Flags().StringVar(&dialect, "dialect", "", "with --print instead of --store: mysql, postgres or sqlite")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !printSQL {
			return groupRun(cmd, args)
		}
		return a.verb(func(context.Context, []string) error {
			return a.printMigrations(&store, dialect)
		})(cmd, args)
	}
	cmd.AddCommand(a.migrateUpCommand(&store), a.migrateStatusCommand(&store))
	return cmd
}

func (a *app) printMigrations(o *storeOptions, dialect string) error {
	fallback, ok := dialectDSN[dialect]
	if dialect != "" && !ok {
		return usagef("--dialect %q must be mysql, postgres or sqlite", dialect)
	}
	if dialect != "" && (o.dsn != "" || o.dsnFile != "") {
		return usagef("--dialect and --store: give one of them")
	}
	dsn, err := o.resolve(a, fallback)
	if err != nil {
		return err
	}
	sql, err := migrations.SQL(anystore.Source(dsn).Dialect(), o.prefix)
	if err != nil {
		return usagef("%w", err)
	}
	if _, err := io.WriteString(a.stdout, sql); err != nil {
		return fmt.Errorf("write sql: %w", err)
	}
	return nil
}

// openUnchecked opens the store of a migration, whose schema need not be there yet.
func (a *app) openUnchecked(ctx context.Context, o *storeOptions) (*gormstore.Store, error) {
	dsn, err := o.resolve(a, "")
	if err != nil {
		return nil, err
	}
	options, err := o.options(a, dsn, nil)
	if err != nil {
		return nil, err
	}
	options.SkipSchemaCheck = true
	return openDSN(ctx, anystore.Open, dsn, options)
}

func (a *app) migrateUpCommand(o *storeOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "Apply the missing migrations", Args: noArgs}
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		s, err := a.openUnchecked(ctx, o)
		if err != nil {
			return err
		}
		defer s.Close()
		applied, err := migrations.Up(ctx, s)
		if err != nil {
			return err
		}
		if len(applied) == 0 && !a.jsonOut {
			fmt.Fprintln(a.stdout, "the schema is up to date")
		}
		return a.printApplied(applied)
	})
	return cmd
}

func (a *app) migrateStatusCommand(o *storeOptions) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Show which migrations are applied", Args: noArgs}
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		s, err := a.openUnchecked(ctx, o)
		if err != nil {
			return err
		}
		defer s.Close()
		all, err := migrations.Status(ctx, s)
		if err != nil {
			return err
		}
		return a.printApplied(all)
	})
	return cmd
}

// jsonMigration is the documented line of migrate up|status --json.
type jsonMigration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

func (a *app) printApplied(list []migrations.Migration) error {
	for _, m := range list {
		if a.jsonOut {
			if err := printJSON(a.stdout, jsonMigration{m.Version, m.Name, m.Applied}); err != nil {
				return err
			}
			continue
		}
		state := "applied"
		if !m.Applied {
			state = "missing"
		}
		fmt.Fprintf(a.stdout, "%s  %s\n", state, m.Name)
	}
	return nil
}
