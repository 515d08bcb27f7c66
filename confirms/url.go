package confirms

import (
	"fmt"

	"github.com/transmsg/transmsg/internal/broker"
)

// ParseURL returns the Config of an AMQP URL: amqp://user:password@host:port/vhost,
// or amqps for TLS with the system's roots and the host as the server name. User and
// password default to guest, the port to 5672 or 5671; no path, "/" and "//" all mean
// the virtual host "/", and "/a/b" and "/a%2Fb" both mean "a/b".
//
// An error names the part at fault and never prints any of the URL. User, password and
// virtual host with special characters are percent-encoded in a URL; Config takes them
// as they are.
func ParseURL(raw string) (Config, error) {
	s, err := broker.ParseURL(raw)
	if err != nil {
		return Config{}, fmt.Errorf("confirms: %w", err)
	}
	return Config{Addrs: s.Addrs, VHost: s.VHost, Credentials: s.Credentials, TLS: s.TLS}, nil
}

// PortHint says that the port of an address is the one of RabbitMQ's management, which takes a
// connection and does not answer in AMQP; it is empty for all others.
func PortHint(addr string) string { return broker.PortHint(addr) }
