package dial

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/transmsg/transmsg/store/gormstore"
)

// TLS returns settings that are one connection's alone, from what Options.TLS gives.
func TLS(ctx context.Context, o gormstore.Options, host string) (*tls.Config, error) {
	given, err := o.TLS(ctx)
	if err != nil {
		return nil, fmt.Errorf("get TLS settings: %w", err)
	}
	settings := given.Clone()
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	return settings, nil
}
