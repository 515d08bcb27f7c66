package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/topology"
)

func (a *app) topologyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Say what is wrong with a broker's exchanges and queues, or print those wanted",
		Long: "A topology file says which exchanges, queues, retry ladders, dead letters and logins services need\n" +
			"(docs/operate/topology.md). `print` makes a definitions file of it, which RabbitMQ imports; `check`\n" +
			"compares a broker with it, and names whatever loses or multiplies messages there.",
		RunE: groupRun,
	}
	cmd.AddCommand(a.topologyCheckCommand(), a.topologyPrintCommand())
	return cmd
}

// planOptions are the settings of the topology file.
type planOptions struct{ path, vhost string }

func (o *planOptions) bind(fs *pflag.FlagSet, more string) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.path, "topology", "", "topology `file` (YAML)"+more)
	fs.AddFlagSet(settings(set))
	fs.StringVar(&o.vhost, "vhost", "", "virtual host, instead of that of the topology file (default /)")
}

// load reads the file.
func (o *planOptions) load() (*topology.Plan, error) {
	text, err := os.ReadFile(o.path)
	if err != nil {
		return nil, usagef("--topology: read %s: %w", o.path, pathCause(err))
	}
	p, err := topology.ParsePlan(text)
	if err != nil {
		return nil, usagef("--topology %s: %w", o.path, err)
	}
	if o.vhost != "" {
		p.VHost = o.vhost
	}
	return &p, nil
}

// password reads the password of a role, "" where the topology file names no file for it. The name of the file is
// relative to the folder of the topology file.
func (o *planOptions) password(a *app, role topology.Role, login topology.Login) (string, error) {
	if login.PasswordFile == "" {
		return "", nil
	}
	path := login.PasswordFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(o.path), path)
	}
	password, err := oneSecret("topology", "", path)
	if err != nil {
		return "", fmt.Errorf("users.%s.password-file: %w", role, err)
	}
	a.secrets.add(password)
	return password, nil
}

func (a *app) topologyPrintCommand() *cobra.Command {
	var plan planOptions
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the topology file as definitions that RabbitMQ imports",
		Long: "Prints a definitions file. An import adds what is missing, sets policies, rights and passwords, and\n" +
			"leaves existing exchanges and queues as they are: run `check` after it. Users whose password-file is\n" +
			"given are in it with a salted hash: treat it as a secret. Nothing is contacted.",
		Example: "  transmsg topology print --topology shop.yaml | rabbitmqctl import_definitions\n" +
			"  transmsg topology print --topology shop.yaml > shop.json && rabbitmqadmin import shop.json",
		Args: noArgs,
	}
	plan.bind(cmd.Flags(), "; required")
	cmd.RunE = a.verb(func(context.Context, []string) error {
		if plan.path == "" {
			return usagef("--topology is required: docs/operate/topology.md has one to begin with")
		}
		p, err := plan.load()
		if err != nil {
			return err
		}
		for role, login := range p.Users {
			if login.Password, err = plan.password(a, role, login); err != nil {
				return usagef("%w", err)
			}
			p.Users[role] = login
		}
		text, err := p.Definitions()
		if err != nil {
			return err
		}
		if _, err := a.stdout.Write(text); err != nil {
			return fmt.Errorf("write definitions: %w", err)
		}
		return nil
	})
	return cmd
}

// readAtMost reads a file, or stdin for -, up to a bound.
func (a *app) readAtMost(path string, most int64) ([]byte, error) {
	in := a.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, pathCause(err)
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return nil, pathCause(err)
	case int64(len(text)) > most:
		return nil, fmt.Errorf("over %d bytes", most)
	case len(text) == 0:
		return nil, errors.New("it is empty")
	}
	return text, nil
}
