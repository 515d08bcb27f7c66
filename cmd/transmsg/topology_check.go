package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/topology"
)

// maxDefinitions bounds a definitions file, in bytes: some 100,000 queues.
const maxDefinitions = 64 << 20

// topologyCheck is one call of the verb.
type topologyCheck struct {
	plan        planOptions
	definitions string
	viewName    string
	amqp        amqpOptions
	api         managementOptions
}

func (a *app) topologyCheckCommand() *cobra.Command {
	var o topologyCheck
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name what is missing, differs, or loses messages on a broker or in an export",
		Long: "Compares a broker with the topology file, and names what loses or multiplies messages although the\n" +
			"broker confirms them: limits that drop, dead letters that go nowhere, transient queues and more.\n" +
			"Looks at an export (--definitions), at the management API (--management), or over AMQP, which tells\n" +
			"only what exists. Without a topology file it looks for dangers alone. What it could not see is said\n" +
			"not to be checked.\n\n" +
			"Exit codes: 0 all was checked and nothing found, 1 something was found, 4 nothing was found and not\n" +
			"everything could be checked.",
		Example: "  rabbitmqctl export_definitions - | transmsg topology check --topology shop.yaml --definitions -\n" +
			"  transmsg topology check --definitions export.json --view consumer --json",
		Args: noArgs,
	}
	o.plan.bind(cmd.Flags(), "; without it only dangers are looked for")
	o.amqp.bindAddress(cmd.Flags())
	o.api.bindAddress(cmd.Flags(), "to see all of a virtual host; its user needs the tag administrator")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.definitions, "definitions", "", "`file` with an export of the broker's definitions; - is stdin")
	set.StringVar(&o.viewName, "view", "all", "whose messages: publisher, consumer or all")
	cmd.Flags().AddFlagSet(set)
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return o.run(ctx, a) })
	return cmd
}

var views = map[string]topology.View{
	"publisher": topology.ViewPublisher, "consumer": topology.ViewConsumer, "all": topology.ViewAll,
}

func (o *topologyCheck) run(ctx context.Context, a *app) error {
	view, ok := views[o.viewName]
	if !ok {
		return usagef("--view %q must be publisher, consumer or all", o.viewName)
	}
	var plan *topology.Plan
	var unread []topology.Unchecked
	if o.plan.path != "" {
		p, err := o.plan.load()
		if err != nil {
			return err
		}
		plan, unread = p, o.passwords(a, p)
	}
	b, err := o.read(ctx, a, plan)
	if err != nil {
		return err
	}
	report := topology.Check(b, plan, view)
	report.Unseen = append(report.Unseen, unread...)
	return o.print(a, b, report)
}

// passwords reads those that can be read here: a check may run where the secrets are not.
func (o *topologyCheck) passwords(a *app, p *topology.Plan) []topology.Unchecked {
	var unread []topology.Unchecked
	for role, login := range p.Users {
		password, err := o.plan.password(a, role, login)
		if err != nil {
			unread = append(unread, topology.Unchecked{Rule: "user-differs", Why: err.Error()})
			continue
		}
		login.Password = password
		p.Users[role] = login
	}
	return unread
}

// read makes a model of what is to be checked.
func (o *topologyCheck) read(ctx context.Context, a *app, plan *topology.Plan) (*topology.Broker, error) {
	vhost := cmp.Or(o.plan.vhost, topology.DefaultVHost)
	if plan != nil {
		vhost = plan.VHost
	}
	if o.definitions != "" {
		return o.readDefinitions(a, vhost)
	}
	api, err := o.api.client(a)
	switch {
	case err != nil:
		return nil, err
	case api != nil:
		defer api.Close()
		return topology.ReadAPI(ctx, api, vhost)
	case plan == nil:
		return nil, usagef("AMQP tells only whether what a topology file names exists: give --topology, " +
			"--management or --definitions")
	}
	return o.readAMQP(ctx, a, plan)
}

func (o *topologyCheck) readDefinitions(a *app, vhost string) (*topology.Broker, error) {
	text, err := a.readAtMost(o.definitions, maxDefinitions)
	if err != nil {
		return nil, usagef("--definitions: read %s: %w", o.definitions, err)
	}
	b, err := topology.ReadDefinitions(text, vhost)
	if err != nil {
		return nil, usagef("--definitions %s: %w", o.definitions, err)
	}
	return b, nil
}

// jsonTopology is the documented line of topology check --json.
type jsonTopology struct {
	Verdict string `json:"verdict"`
	VHost   string `json:"vhost"`
	Version string `json:"version"`
	topology.Report
}

// The verdicts of jsonTopology.
const (
	verdictOK         = "ok"
	verdictBroken     = "broken"
	verdictIncomplete = "incomplete"
)

func (o *topologyCheck) print(a *app, b *topology.Broker, r topology.Report) error {
	verdict, err := o.verdict(r)
	if a.jsonOut {
		// Lists are never null.
		r.Findings = append([]topology.Finding{}, r.Findings...)
		r.Unseen = append([]topology.Unchecked{}, r.Unseen...)
		if failed := printJSON(a.stdout, jsonTopology{verdict, b.VHost, b.Version, r}); failed != nil {
			return failed
		}
		return err
	}
	for _, f := range r.Findings {
		fmt.Fprintf(a.stdout, "%s  [%s]\n", printable(f.String()), f.Rule)
	}
	for _, line := range unchecked(r.Unseen) {
		fmt.Fprintf(a.stdout, "not checked: %s\n", printable(line))
	}
	if verdict == verdictOK {
		fmt.Fprintf(a.stdout, "ok: %d exchanges, %d queues and %d bindings of virtual host %s\n",
			len(b.Exchanges), len(b.Queues), len(b.Bindings), printable(b.VHost))
	}
	return err
}

func (o *topologyCheck) verdict(r topology.Report) (string, error) {
	switch {
	case len(r.Findings) > 0:
		return verdictBroken, exitError{code: exitFailed, err: fmt.Errorf("found %d; the rules are explained in %s",
			len(r.Findings), "docs/operate/topology.md")}
	case len(r.Unseen) > 0:
		return verdictIncomplete, exitError{code: exitUnseen, err: fmt.Errorf("found nothing, and could not check " +
			"everything")}
	}
	return verdictOK, nil
}

// unchecked joins the rules that one reason keeps from being applied.
func unchecked(list []topology.Unchecked) []string {
	var reasons []string
	rules := map[string][]string{}
	for _, u := range list {
		if rules[u.Why] == nil {
			reasons = append(reasons, u.Why)
		}
		rules[u.Why] = append(rules[u.Why], u.Rule)
	}
	slices.Sort(reasons)
	for i, why := range reasons {
		reasons[i] = strings.Join(rules[why], ", ") + ": " + why
	}
	return reasons
}
