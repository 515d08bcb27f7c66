package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// tlsOptions are the settings of TLS to one server. The files are read again at each
// dial, so that certificates can be renewed under a running process. Verification cannot
// be turned off here.
type tlsOptions struct {
	name                      string // of the server's settings: amqp, store or redis
	ca, cert, key, serverName string
	fs                        *pflag.FlagSet
}

// bind adds the flags to set, which becomes part of fs.
func (o *tlsOptions) bind(fs, set *pflag.FlagSet, name, server string) {
	o.name, o.fs = name, fs
	prefix := name + "-tls-"
	set.StringVar(&o.ca, prefix+"ca", "",
		"`file` with the authorities (PEM) that sign "+server+"'s certificate, instead of the system's")
	set.StringVar(&o.cert, prefix+"cert", "", "`file` with the client certificate (PEM) for "+server)
	set.StringVar(&o.key, prefix+"key", "", "`file` with the key (PEM) of --"+prefix+"cert")
	set.StringVar(&o.serverName, prefix+"server-name", "",
		"name that "+server+"'s certificate must have (default its host)")
}

// given returns the first of the flags that was given, or "".
func (o *tlsOptions) given() string {
	for _, name := range []string{"ca", "cert", "key", "server-name"} {
		if o.fs.Changed(o.name + "-tls-" + name) {
			return o.name + "-tls-" + name
		}
	}
	return ""
}

// check reads the files once: a mistake in them is one of usage.
func (o *tlsOptions) check() error {
	if (o.cert == "") != (o.key == "") {
		return usagef("--%s-tls-cert and --%s-tls-key: give both", o.name, o.name)
	}
	if _, err := o.load(context.Background()); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// load returns the settings for one connection. Its errors name flag and file, and hold
// nothing of what is in it.
func (o *tlsOptions) load(context.Context) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.serverName}
	if o.ca != "" {
		pem, err := o.read("ca", o.ca)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--%s-tls-ca: %s has no certificate in PEM", o.name, o.ca)
		}
	}
	if o.cert == "" {
		return cfg, nil
	}
	cert, err := o.read("cert", o.cert)
	if err != nil {
		return nil, err
	}
	key, err := o.read("key", o.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--%s-tls-cert %s with --%s-tls-key %s: %w", o.name, o.cert, o.name, o.key, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

func (o *tlsOptions) read(flag, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s-tls-%s: read %s: %w", o.name, flag, path, pathCause(err))
	}
	return b, nil
}
