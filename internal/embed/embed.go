// Package embed is what package transmsg and a compensator in the same process tell each other.
// It is a package of its own so that a service without a compensator links none.
package embed

import (
	"log/slog"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Parts are what a service's compensator stands on. They stay the giver's to close, after the
// compensator has ended.
type Parts struct {
	Service string
	// Store has all methods that the compensator calls, which it looks at when it starts.
	Store  settle.Store
	Sender *confirms.Sender // its own: a backlog takes no room from the publisher
	Policy model.Policy     // of the publisher
	Logger *slog.Logger
	// Metrics is the front's Config.Metrics, which may count the compensator's work too. Nil is none.
	Metrics any
}
