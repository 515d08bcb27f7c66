package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/confirms"
)

const defaultAMQP = "amqp://guest:guest@127.0.0.1:5672/"

// brokerFlags say where to publish, and what is logged about it.
type brokerFlags struct {
	url, urlFile     string
	channels, window int
	level            string
}

func (b *brokerFlags) bind(fs *pflag.FlagSet, level string) {
	fs.StringVar(&b.url, "amqp", "", "broker `URL`, amqp:// or amqps://, special characters percent-encoded "+
		"(default "+defaultAMQP+")")
	fs.StringVar(&b.urlFile, "amqp-file", "", "`file` with the --amqp URL, for a URL with a password")
	fs.IntVar(&b.channels, "channels", confirms.DefaultChannels, "publishing channels, 1 to 16")
	fs.IntVar(&b.window, "window", confirms.DefaultWindow, "unconfirmed messages per channel, 1 to 10000")
	fs.StringVar(&b.level, "log-level", level, "least level logged on stderr: debug, info, warn or error")
}

// config is the engine's Config under this name, which logs to out.
func (b *brokerFlags) config(name string, out io.Writer) (confirms.Config, error) {
	url, err := valueOrFile("amqp", b.url, b.urlFile, defaultAMQP)
	if err != nil {
		return confirms.Config{}, err
	}
	cfg, err := confirms.ParseURL(url)
	if err != nil {
		return cfg, usageError{fmt.Errorf("--amqp: %w", err)}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(b.level)); err != nil {
		return cfg, usageError{fmt.Errorf("--log-level %q must be debug, info, warn or error", b.level)}
	}
	switch {
	case b.channels < 1 || b.channels > 16:
		return cfg, usageError{fmt.Errorf("--channels %d must be 1 to 16", b.channels)}
	case b.window < 1 || b.window > 10_000:
		return cfg, usageError{fmt.Errorf("--window %d must be 1 to 10000", b.window)}
	}
	cfg.Name, cfg.Channels, cfg.Window = name, b.channels, b.window
	cfg.MaxPending, cfg.DialTimeout = max(confirms.DefaultMaxPending, b.window), confirms.DefaultDialTimeout
	cfg.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	return cfg, nil
}

// valueOrFile is the value of a flag or the first line of its file, or the fallback without both.
func valueOrFile(name, value, file, fallback string) (string, error) {
	switch {
	case value != "" && file != "":
		return "", usageError{fmt.Errorf("--%s and --%s-file: give one of them", name, name)}
	case file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			return "", usageError{fmt.Errorf("--%s-file: %w", name, err)}
		}
		if value = strings.TrimRight(string(text), "\r\n"); value == "" {
			return "", usageError{fmt.Errorf("--%s-file: %s is empty", name, file)}
		}
	case value == "":
		return fallback, nil
	}
	return value, nil
}
