package main

import (
	"context"
	"crypto/tls"
	"strings"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/internal/management"
)

// managementOptions are the settings of the broker's management API, which verbs ask for what
// AMQP does not tell. They do without it.
type managementOptions struct {
	url, urlFile string
	vhost        string
	tls          tlsOptions
}

func (o *managementOptions) bind(fs *pflag.FlagSet) {
	o.bindAddress(fs, "to tell which queues a message would reach (default none: that is unknown then)")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.vhost, "management-vhost", "/", "virtual host of the messages, with --management")
	fs.AddFlagSet(settings(set))
}

// bindAddress has the settings of a verb that knows the virtual host by other means.
func (o *managementOptions) bindAddress(fs *pflag.FlagSet, purpose string) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.url, "management", "",
		"`URL` of RabbitMQ's management API, http://user:password@host:15672, "+purpose)
	set.StringVar(&o.urlFile, "management-file", "", "`file` with the --management URL")
	o.tls.bind(fs, set, "management", "the management API")
	fs.AddFlagSet(settings(set))
}

// routes is what the broker's bindings say, nil without --management. Nobody is asked yet.
func (o *managementOptions) routes(a *app) (routes *management.Routes, closed func(), err error) {
	client, err := o.client(a)
	switch {
	case err != nil:
		return nil, nil, err
	case client == nil:
		return nil, func() {}, nil
	case o.vhost == "":
		return nil, nil, usagef("--management-vhost must not be empty; the default virtual host is /")
	}
	return client.Routes(o.vhost), client.Close, nil
}

// client is the API, nil without --management. Nobody is asked yet.
func (o *managementOptions) client(a *app) (*management.Client, error) {
	u, err := oneSecret("management", o.url, o.urlFile)
	if err != nil {
		return nil, err
	}
	flag := o.tls.given()
	if u == "" {
		return nil, nil
	}
	a.secrets.addURL(u)
	var secure *tls.Config
	if flag != "" {
		if !strings.HasPrefix(u, "https://") {
			return nil, usagef("--%s: the connection is plain; give an https:// URL", flag)
		}
		if err := o.tls.check(); err != nil {
			return nil, err
		}
		if secure, err = o.tls.load(context.Background()); err != nil {
			return nil, usagef("%w", err)
		}
	}
	client, err := management.New(management.Config{URL: u, TLS: secure})
	if err != nil {
		from := "management"
		if o.urlFile != "" {
			from = "management-file"
		}
		return nil, usagef("--%s: %w", from, err)
	}
	return client, nil
}
