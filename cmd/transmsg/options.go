package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
)

// readSecret returns the first line of a secret's file. Editors end files with a newline
// that is not part of the secret.
func readSecret(setting, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("--%s: read %s: %w", setting, path, pathCause(err))
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// oneSecret is the value of a setting or of its file, which must not be empty.
func oneSecret(name, value, file string) (string, error) {
	switch {
	case value != "" && file != "":
		return "", usagef("--%s and --%s-file: give one of them", name, name)
	case file == "":
		return value, nil
	}
	s, err := readSecret(name+"-file", file)
	if err != nil {
		return "", usagef("%w", err)
	}
	if s == "" {
		return "", usagef("--%s-file: %s is empty", name, file)
	}
	return s, nil
}

// pathCause is why a file cannot be read, without its name.
func pathCause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// defaultStore is the SQLite file of verbs that work without a database of yours.
func defaultStore() (string, error) {
	path, err := filepath.Abs("transmsg.db")
	if err != nil {
		return "", fmt.Errorf("default store: %w", err)
	}
	return "sqlite:" + path, nil
}

// policyOptions are the settings of retrying.
type policyOptions struct{ model.Policy }

func (o *policyOptions) bind(fs *pflag.FlagSet) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.DurationVar(&o.BaseDelay, "base-delay", model.DefaultBaseDelay, "delay after the first failure, at least 1ms")
	set.Float64Var(&o.Multiplier, "multiplier", model.DefaultMultiplier, "growth of the delay per failure, 1 to 100")
	set.DurationVar(&o.MaxDelay, "max-delay", model.DefaultMaxDelay, "largest delay, not below --base-delay")
	set.Float64Var(&o.Jitter, "jitter", model.DefaultJitter, "spread of the delay, 0 to 1: 0.2 is 20 % either way")
	set.IntVar(&o.MaxAttempts, "max-attempts", model.DefaultMaxAttempts,
		"failed attempts after which a message is alerted, and DEAD once it is old enough; at least 1")
	set.DurationVar(&o.MinDeadAge, "min-dead-age", model.DefaultMinDeadAge,
		"least time since its first failure before --max-attempts make a message DEAD; 0 is none")
	set.DurationVar(&o.MaxAge, "max-age", 0,
		"time since its first failure from which a message is DEAD, not below --min-dead-age; 0 is none")
	fs.AddFlagSet(settings(set))
}

// policy checks the settings by their flags' names. A zero would silently mean the
// default, so it is refused where it has no meaning of its own.
func (o *policyOptions) policy() (model.Policy, error) {
	p := o.Policy
	switch {
	case p.BaseDelay < time.Millisecond:
		return p, usagef("--base-delay %v must be at least 1ms", p.BaseDelay)
	case !(p.Multiplier >= 1 && p.Multiplier <= 100):
		return p, usagef("--multiplier %v must be 1 to 100", p.Multiplier)
	case p.MaxDelay < p.BaseDelay:
		return p, usagef("--max-delay %v must not be below --base-delay %v", p.MaxDelay, p.BaseDelay)
	case !(p.Jitter >= 0 && p.Jitter <= 1):
		return p, usagef("--jitter %v must be 0 to 1", p.Jitter)
	case p.MaxAttempts < 1:
		return p, usagef("--max-attempts %d must be at least 1", p.MaxAttempts)
	case p.MinDeadAge < 0:
		return p, usagef("--min-dead-age %v must not be negative", p.MinDeadAge)
	case p.MaxAge < 0:
		return p, usagef("--max-age %v must not be negative", p.MaxAge)
	case p.MaxAge > 0 && p.MaxAge < p.MinDeadAge:
		return p, usagef("--max-age %v must not be below --min-dead-age %v: messages would go DEAD before they may",
			p.MaxAge, p.MinDeadAge)
	}
	p.Jitter, p.MinDeadAge, p.MaxAge = orNone(p.Jitter), orNone(p.MinDeadAge), orNone(p.MaxAge)
	return p, nil
}

// orNone is a setting as the library has it: on the command line none is 0.
func orNone[T ~int64 | ~float64](value T) T {
	if value == 0 {
		return model.None
	}
	return value
}

// logOptions are the settings of the log on stderr.
type logOptions struct{ level, format string }

func (o *logOptions) bind(fs *pflag.FlagSet, level string) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.level, "log-level", level, "least level logged on stderr: debug, info, warn or error")
	set.StringVar(&o.format, "log-format", "text", "text or json")
	fs.AddFlagSet(settings(set))
}

func (o *logOptions) logger(a *app) (*slog.Logger, error) {
	var level slog.Level
	switch o.level {
	case "debug", "info", "warn", "error":
		_ = level.UnmarshalText([]byte(o.level)) // one of its own words
	default:
		return nil, usagef("--log-level %q must be debug, info, warn or error", o.level)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: a.secrets.logged}
	switch o.format {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, options)), nil
	}
	return nil, usagef("--log-format %q must be text or json", o.format)
}

// positive refuses a duration that is not above zero.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usagef("--%s %v must be above 0", flag, d)
	}
	return nil
}
