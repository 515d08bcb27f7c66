package alert

import (
	"context"
	"log/slog"

	"github.com/transmsg/transmsg/model"
)

// LogSink writes alerts to a log at level error.
type LogSink struct {
	Logger *slog.Logger // required
}

// Alert writes one line and never fails.
func (s LogSink) Alert(ctx context.Context, a model.Alert) error {
	s.Logger.ErrorContext(ctx, "needs attention", "alert", &a)
	return nil
}
