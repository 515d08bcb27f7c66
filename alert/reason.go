package alert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"
)

// reason says why a delivery failed in words of this package alone: the texts of HTTP
// clients and of services contain URLs, and those tokens.
func reason(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &dns):
		return "the host's name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &cert):
		return "the host's certificate is not trusted"
	default:
		return "delivery failed"
	}
}
