package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes; docs/cli.md documents them.
const (
	exitDone   = 0
	exitFailed = 1 // something could not be done; the last line on stderr says what
	exitUsage  = 2 // the command line, the environment or the file is wrong; nothing was done
	exitKept   = 3 // a message was not routed, was refused or is DEAD; it is kept in the store
	exitUnseen = 4 // nothing wrong was found, and not everything could be checked
)

// app is one run of the binary: its streams and environment.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	secrets        *redactor // what no line on stderr may contain
	jsonOut        bool      // --json
	configFile     string    // --config
	args           []string  // the command line
	given          []string  // the flags of the command line, as they can be given again
	overridden     []string  // settings of the file that the environment overrides
	started        bool      // a verb's own code has begun: errors are no longer usage errors
}

// run executes one command line and returns the exit code. It never prints a secret that
// it was given.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	secrets := &redactor{out: stderr}
	a := &app{stdin: stdin, stdout: stdout, stderr: secrets, environ: os.Environ(), secrets: secrets, args: args}
	for _, arg := range args {
		// Also where no secret is expected: a URL given as an argument, for a file, for a verb.
		if strings.Contains(arg, "://") {
			secrets.addURL(arg)
		}
	}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exit(cmd, err)
}

// root assembles the verbs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "transmsg",
		Short: "Get messages to a RabbitMQ queue at least once, or tell somebody",
		Long: "transmsg stores a message before it sends it, sends it with publisher confirms, and deletes it\n" +
			"when the broker has taken and routed it; the compensator sends what is left, again and again,\n" +
			"and marks DEAD what runs out of attempts.\n\n" +
			"Every setting is a flag, an environment variable and a key of the --config file: --confirm-timeout\n" +
			"is TRANSMSG_CONFIRM_TIMEOUT and confirm-timeout. A flag wins over the environment, that over the\n" +
			"file, that over the default.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage, 3 not routed or DEAD, 4 not all could be checked.",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          groupRun,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetIn(a.stdin)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true}) // --help says it all
	root.CompletionOptions.HiddenDefaultCmd = true
	fs := root.PersistentFlags()
	fs.StringVar(&a.configFile, "config", "", "YAML `file` with settings, one key per setting (TRANSMSG_CONFIG)")
	fs.BoolVar(&a.jsonOut, "json", false, "print machine-readable lines on stdout (docs/cli.md)")
	root.AddCommand(
		a.publishCommand(), a.compensatorCommand(), a.migrateCommand(), a.messagesCommand(),
		a.lettersCommand(),
		a.statsCommand(), a.alertCommand(), a.policyCommand(), a.topologyCommand(),
		a.versionCommand(),
	)
	return root
}

// groupRun is the action of a command that only groups verbs: nothing given prints the
// help; a word that is no verb is refused with the nearest one.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		if cmd.HasParent() {
			return usagef("a verb is missing: %s", strings.Join(verbNames(cmd), ", "))
		}
		return cmd.Help()
	}
	return usagef("unknown verb %q%s", args[0], didYouMean(args[0], verbNames(cmd), ""))
}

func verbNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "completion" {
			names = append(names, c.Name())
		}
	}
	return names
}

// verb wraps the code of one verb: settings from environment and file are applied first.
func (a *app) verb(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.loadSettings(cmd); err != nil {
			return err
		}
		a.started = true
		if cmd.Name() != compensatorName { // whose log says it
			for _, name := range a.overridden {
				fmt.Fprintf(a.stderr, "%s overrides key %s of %s\n", envName(name), name, a.configFile)
			}
		}
		return f(cmd.Context(), args)
	}
}

// noArgs refuses arguments of a verb that takes flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("takes no argument %q, only flags: %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// exit prints err and returns the exit code for it.
func (a *app) exit(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	var code exitError
	if errors.As(err, &code) {
		if code.err != nil {
			fmt.Fprintf(a.stderr, "%s: %s\n", cmd.CommandPath(), a.secrets.errorText(code.err))
		}
		return code.code
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", cmd.CommandPath(), a.secrets.errorText(err))
	if !a.started {
		return exitUsage
	}
	return exitFailed
}

// exitError ends the run with a code of its own; err may be nil where all was said.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e exitError) Unwrap() error { return e.err }

// usagef is a mistake in how the verb was called: exit code 2.
func usagef(format string, args ...any) error {
	return exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}
