package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

// PortHint says that the port of an address is the one of RabbitMQ's management, which takes a
// connection and does not answer in AMQP; it is empty for all others.
func PortHint(addr string) string {
	switch _, port, _ := net.SplitHostPort(addr); port {
	case "15672", "15671":
		return "port " + port + " is usually that of RabbitMQ's management: AMQP's is 5672, or 5671 with TLS"
	}
	return ""
}

// withHint adds the likely reason and the next step, in plain words, to why a
// connection could not be made. The cause stays wrapped.
func withHint(err error, addr string, secure bool) error {
	hint := dialHint(err, secure)
	if port := PortHint(addr); port != "" && !errors.As(err, new(*amqp.Error)) {
		hint = port
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

func dialHint(err error, secure bool) string {
	var broker *amqp.Error
	if errors.As(err, &broker) && (broker.Server || broker == amqp.ErrCredentials || broker == amqp.ErrVhost) {
		return brokerHint(broker)
	}
	if hint := tlsHint(err); hint != "" {
		return hint
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "the host name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: is the broker running, is the port right?"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time: wrong address, a firewall, a broker still starting, or TLS on one side only"
	case isHangUp(err) && !secure:
		return "the peer hung up in the handshake: does this port want TLS (amqps, usually 5671)?"
	case isHangUp(err), errors.Is(err, amqp.ErrClosed):
		return "the peer hung up in the handshake: is this the TLS port of a RabbitMQ broker, does it want a " +
			"client certificate?"
	case isNoFrame(err) && !secure:
		return "the peer does not answer in AMQP: does this port want TLS (amqps, usually 5671)?"
	case isNoFrame(err):
		return "the peer does not answer in AMQP: is this the TLS port of a RabbitMQ broker?"
	}
	return ""
}

func brokerHint(e *amqp.Error) string {
	switch {
	case e.Code == amqp.NotAllowed && strings.Contains(e.Reason, "limit"):
		return "a limit of connections is reached: a process needs one, and at times a second one for messages that " +
			"must go alone; raise max-connections of the user or virtual host to twice the processes"
	case e.Code == amqp.NotAllowed && strings.Contains(e.Reason, "not found"):
		return "the virtual host does not exist: create it or correct its name"
	case e.Code == amqp.NotAllowed && strings.Contains(e.Reason, "refused"), e == amqp.ErrVhost:
		return "the user has no permission on this virtual host"
	case e.Code == amqp.NotAllowed:
		return "the broker does not allow this connection"
	case e.Code == amqp.AccessRefused:
		return "the broker refuses user or password (guest is let in from localhost only)"
	}
	return ""
}

func tlsHint(err error) string {
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &record):
		return "the port does not speak TLS: use amqp instead of amqps, or the broker's TLS port (usually 5671)"
	case errors.As(err, &authority):
		return "the broker's certificate is signed by an authority unknown here: give its CA"
	case errors.As(err, &host):
		return "the broker's certificate is for another name: set the server name"
	case errors.As(err, &invalid):
		return "the broker's certificate is not valid now or not for this use"
	}
	return ""
}

// isHangUp reports an end of stream. The client library turns the reader's error into
// text, so text is all there is.
func isHangUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection reset") ||
		strings.Contains(err.Error(), "use of closed network connection") // the library closed it after the hang-up
}

// isNoFrame reports that something else, such as a TLS alert, was read as a frame.
func isNoFrame(err error) bool {
	return errors.Is(err, amqp.ErrFrame) || strings.Contains(err.Error(), "frame size exceeds")
}
