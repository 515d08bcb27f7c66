package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases: -ldflags "-X main.version=v1.2.3".
var version string

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print version and commit", Args: noArgs}
	cmd.RunE = a.verb(func(context.Context, []string) error {
		v, commit := versionInfo()
		if a.jsonOut {
			return printJSON(a.stdout, struct {
				Version string `json:"version"`
				Commit  string `json:"commit"`
				Go      string `json:"go"`
			}{v, commit, runtime.Version()})
		}
		fmt.Fprintf(a.stdout, "transmsg %s (commit %s, %s)\n", v, commit, runtime.Version())
		return nil
	})
	return cmd
}

func versionInfo() (v, commit string) {
	v, commit = version, "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v, commit
	}
	if v == "" {
		v = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return v, commit
}
