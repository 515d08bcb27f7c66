package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

const (
	plainPort = "5672"
	tlsPort   = "5671"
)

// ParseURL returns the settings of an AMQP URL, without a name and timeouts: amqp://user:password@host:port/vhost,
// or amqps for TLS with the system's roots and the host as the server name. User and
// password default to guest, the port to 5672 or 5671; no path, "/" and "//" all mean
// the virtual host "/", and "/a/b" and "/a%2Fb" both mean "a/b".
//
// An error names the part at fault and never prints any of the URL. User, password and
// virtual host with special characters are percent-encoded in a URL; Settings takes them
// as they are.
func ParseURL(raw string) (Settings, error) {
	u, err := parseURL(raw)
	if err != nil {
		return Settings{}, fmt.Errorf("parse AMQP URL: %w", err)
	}
	port := plainPort
	var c Settings
	if u.Scheme == "amqps" {
		port = tlsPort
		c.TLS = func(context.Context) (*tls.Config, error) {
			return &tls.Config{MinVersion: tls.VersionTLS12}, nil
		}
	}
	if p := u.Port(); p != "" {
		port = p
	}
	c.Addrs = []string{net.JoinHostPort(u.Hostname(), port)}
	if c.VHost = strings.TrimPrefix(u.Path, "/"); c.VHost == "" {
		c.VHost = "/"
	}
	user, password := "guest", "guest"
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	c.Credentials = func(context.Context) (string, string, error) { return user, password, nil }
	return c, nil
}

// parseURL is url.Parse with errors that tell the part and nothing of its content.
func parseURL(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || (scheme != "amqp" && scheme != "amqps") {
		return nil, errors.New("it must begin with amqp:// or amqps://")
	}
	userinfo, hostAndPath := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		userinfo, hostAndPath = rest[:at], rest[at+1:]
	}
	if err := checkUserinfo(userinfo); err != nil {
		return nil, err
	}
	_, path, _ := strings.Cut(hostAndPath, "/")
	if strings.ContainsAny(hostAndPath, "?#") {
		return nil, errors.New("the virtual host must percent-encode ? as %3F and # as %23; " +
			"query parameters are not supported, the settings are fields of Config")
	}
	if _, err := url.PathUnescape(path); err != nil {
		return nil, errors.New("the virtual host must percent-encode % as %25")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || strings.Contains(u.Hostname(), ",") {
		return nil, errors.New("the part before the virtual host must be one host:port; user and password before " +
			"it, ended by @, must percent-encode / ? # % [ ] and space, or be given as separate settings, as they are")
	}
	return u, nil
}

// checkUserinfo looks at everything before the last "@".
func checkUserinfo(userinfo string) error {
	const hint = "or give user and password as separate settings, as they are"
	if strings.ContainsAny(userinfo, "/?#[] \"<>^`{}|\\") {
		return errors.New("the user name or password (all before the last @) has a character that must be " +
			"percent-encoded: one of / ? # [ ] ^ or the like (/ is %2F, ? is %3F, # is %23, ^ is %5E), " + hint)
	}
	if _, err := url.PathUnescape(userinfo); err != nil {
		return errors.New("the user name or password has a % that is not an escape: write it as %25, " + hint)
	}
	return nil
}
