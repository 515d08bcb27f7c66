package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/compensator"
)

// alertOptions are the settings of where alerts go, beside the log.
type alertOptions struct {
	webhook, webhookFile string
	secret, secretFile   string
	urls                 urlList
	urlFile              string
}

func (o *alertOptions) bind(fs *pflag.FlagSet) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.webhook, "alert-webhook", "", "`URL` that alerts are posted to as JSON; it may hold a token")
	set.StringVar(&o.webhookFile, "alert-webhook-file", "", "`file` with the --alert-webhook URL")
	set.StringVar(&o.secret, "alert-webhook-secret", "", "key that signs the posted alerts with HMAC-SHA256")
	set.StringVar(&o.secretFile, "alert-webhook-secret-file", "", "`file` with the --alert-webhook-secret")
	set.Var(&o.urls, "alert-url", "`URL` of a chat, mail or paging service as shoutrrr writes it, such as "+
		"slack://token@channel; repeat for more, or separate by spaces")
	set.StringVar(&o.urlFile, "alert-url-file", "", "`file` with --alert-url URLs, one a line")
	fs.AddFlagSet(settings(set))
}

// namedSink is a sink with the name that people see.
type namedSink struct {
	name string
	alert.Sink
}

// sinks are those configured, none where the log is the only one.
func (o *alertOptions) sinks(a *app) ([]namedSink, error) {
	hook, err := o.webhookSink(a)
	if err != nil {
		return nil, err
	}
	urls, err := o.services(a)
	if err != nil || len(urls) == 0 {
		return hook, err
	}
	// All at once, so that the error counts them as the user does.
	if _, err := alert.NewShoutrrr(urls...); err != nil {
		return nil, usagef("--alert-url: %s", strings.TrimPrefix(a.secrets.clean(err.Error()), "alert: "))
	}
	sinks := hook
	for i, u := range urls {
		s, err := alert.NewShoutrrr(u)
		if err != nil {
			return nil, usagef("--alert-url: %s", strings.TrimPrefix(a.secrets.clean(err.Error()), "alert: "))
		}
		scheme, _, _ := strings.Cut(u, ":") // it is a known one by now
		sinks = append(sinks, namedSink{fmt.Sprintf("url %d (%s)", i+1, scheme), s})
	}
	return sinks, nil
}

func (o *alertOptions) webhookSink(a *app) ([]namedSink, error) {
	hook, err := oneSecret("alert-webhook", o.webhook, o.webhookFile)
	if err != nil {
		return nil, err
	}
	secret, err := oneSecret("alert-webhook-secret", o.secret, o.secretFile)
	if err != nil {
		return nil, err
	}
	a.secrets.add(secret)
	if hook == "" {
		if secret != "" {
			return nil, usagef("--alert-webhook-secret: there is no --alert-webhook to sign for")
		}
		return nil, nil
	}
	a.hideToken(hook)
	s, err := alert.NewWebhook(alert.WebhookConfig{URL: hook, Secret: []byte(secret)})
	if err != nil {
		return nil, usagef("--alert-webhook must be http(s)://host/path")
	}
	return []namedSink{{"webhook", s}}, nil
}

// services are the URLs of --alert-url and of --alert-url-file.
func (o *alertOptions) services(a *app) ([]string, error) {
	urls := o.urls
	if o.urlFile != "" {
		if len(urls) > 0 {
			return nil, usagef("--alert-url and --alert-url-file: give one of them")
		}
		all, err := os.ReadFile(o.urlFile)
		if err != nil {
			return nil, usagef("--alert-url-file: read %s: %w", o.urlFile, pathCause(err))
		}
		if urls = strings.Fields(string(all)); len(urls) == 0 {
			return nil, usagef("--alert-url-file: %s is empty", o.urlFile)
		}
	}
	for _, u := range urls {
		a.hideToken(u)
	}
	return urls, nil
}

// hideToken hides a URL whose host, user, path or query may be a token.
func (a *app) hideToken(raw string) {
	a.secrets.add(raw)
	a.secrets.addURL(raw)
	u, err := url.Parse(raw)
	if err != nil {
		return
	}
	a.secrets.add(u.User.Username())
	a.secrets.add(u.RawQuery)
	a.secrets.add(strings.Trim(u.Path, "/"))
}

// alerters are what the daemon tells beside its log, each by itself.
func (o *alertOptions) alerters(a *app) ([]compensator.Alerter, error) {
	sinks, err := o.sinks(a)
	all := make([]compensator.Alerter, 0, len(sinks))
	for _, s := range sinks {
		all = append(all, s.Sink)
	}
	return all, err
}

const urlListType = "urls"

// urlList is a flag of URLs: they hold commas, and no spaces.
type urlList []string

// String implements pflag.Value.
func (l *urlList) String() string { return strings.Join(*l, " ") }

// Set implements pflag.Value: it adds.
func (l *urlList) Set(s string) error {
	*l = append(*l, strings.Fields(s)...)
	return nil
}

// Type implements pflag.Value.
func (l *urlList) Type() string { return urlListType }
