package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/model"
)

// alertCommand groups the verbs on alerts.
func (a *app) alertCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "alert", Short: "Try out where alerts go", RunE: groupRun}
	cmd.AddCommand(a.alertTestCommand())
	return cmd
}

func (a *app) alertTestCommand() *cobra.Command {
	var o alertOptions
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Send a test alert through every configured sink",
		Long: "Sends one alert of kind \"test\" through each sink that the same settings give the compensator, and\n" +
			"says which accepted it. Exit code 1 when one did not.",
		Example: "  transmsg alert test --alert-webhook https://hooks.example/transmsg\n" +
			"  transmsg alert test --config /etc/transmsg.yaml",
		Args: noArgs,
	}
	o.bind(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		sinks, err := o.sinks(a)
		if err != nil {
			return err
		}
		if len(sinks) == 0 {
			return usagef("no sink is configured: alerts go to the log of the compensator alone.\n" +
				"Next: give --alert-webhook or --alert-url, or the --config file of the compensator")
		}
		return a.testSinks(ctx, sinks)
	})
	return cmd
}

// jsonSink is the documented line of alert test --json.
type jsonSink struct {
	Sink     string `json:"sink"`
	Accepted bool   `json:"accepted"`
	Error    string `json:"error"`
}

func (a *app) testSinks(ctx context.Context, sinks []namedSink) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	now := time.Now()
	message := model.Alert{
		Kind: model.AlertTest, Text: "somebody tries out whether alerts arrive; nothing is wrong",
		First: now, Last: now, Instance: host, Command: "transmsg alert test",
	}
	failed := 0
	for _, s := range sinks {
		result := jsonSink{Sink: s.name, Accepted: true}
		if err := a.testSink(ctx, s, message); err != nil {
			result.Accepted, result.Error = false, a.secrets.clean(err.Error()) // a sink's own words
			failed++
		}
		if a.jsonOut {
			if err := printJSON(a.stdout, result); err != nil {
				return err
			}
			continue
		}
		if result.Accepted {
			fmt.Fprintf(a.stdout, "%s: accepted\n", s.name)
		} else {
			fmt.Fprintf(a.stdout, "%s: not accepted: %s\n", s.name, result.Error)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d sinks did not accept the alert", failed, len(sinks))
	}
	return nil
}

func (a *app) testSink(ctx context.Context, s namedSink, message model.Alert) error {
	ctx, cancel := context.WithTimeout(ctx, alert.Timeout)
	defer cancel()
	return s.Alert(ctx, message)
}
