package compensator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// namesFirst is when the second look at the services' names is; the first is at once.
	namesFirst = 30 * time.Second
	// namesOverdue is how long a message must have been due before its service counts as
	// named by nobody: another process that names it would have sent it.
	namesOverdue = 20 * time.Second
	// maxNames bounds the services in one line.
	maxNames = 10
)

// serviceNames compares Config.Services with the services in the table: a misspelt one sends nothing,
// and nothing else would say so.
type serviceNames struct {
	c    *Compensator
	told string // the services of the last warning
}

// run looks at once, within the first minute and then each minute, until ctx ends.
func (n *serviceNames) run(ctx context.Context) {
	if len(n.c.cfg.Services) == 0 {
		return // all are sent
	}
	n.look(ctx, n.missing)
	for wait := namesFirst; sleep(ctx, wait); wait = upkeepEvery {
		n.look(ctx, n.unnamed)
	}
}

func (n *serviceNames) look(ctx context.Context, tell func([]model.Stats)) {
	defer func() {
		if p := recover(); p != nil {
			n.c.log.Error("look at the services' names panicked", "panic", fmt.Sprint(p))
		}
	}()
	call, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stats, err := n.c.cfg.Store.Stats(call, "")
	if err != nil {
		n.c.log.Debug("look at the services' names", "error", err) // the runs tell of the database
		return
	}
	tell(stats)
}

// missing tells of services of Config that have no row: they may be idle, or misspelt.
func (n *serviceNames) missing(stats []model.Stats) {
	var stored, missing []string
	for i := range stats {
		stored = append(stored, stats[i].Service)
	}
	for _, s := range n.c.cfg.Services {
		if !slices.Contains(stored, s) {
			missing = append(missing, s)
		}
	}
	if len(missing) > 0 {
		n.c.log.Info("no message of these services is stored: they are idle, or their publishers have another name",
			"services", listed(missing), "stored", listed(stored))
	}
}

// unnamed tells of services whose messages are due and which nobody seems to send.
func (n *serviceNames) unnamed(stats []model.Stats) {
	var services []string
	var due int64
	var oldest time.Duration
	for i := range stats {
		s := &stats[i]
		if s.OldestDue < namesOverdue || slices.Contains(n.c.cfg.Services, s.Service) {
			continue
		}
		services, due, oldest = append(services, s.Service), due+s.Due, max(oldest, s.OldestDue)
	}
	before := n.told
	if n.told = strings.Join(services, ","); len(services) == 0 || n.told == before {
		return
	}
	n.c.log.Warn("messages of services that are not named here are due, and nobody sends them: name them in Services, "+
		"or start a compensator for them", "services", listed(services), "due", due,
		"oldest_due", oldest.Round(time.Second), "named", listed(n.c.cfg.Services))
}

// listed joins some of the names.
func listed(services []string) string {
	if more := len(services) - maxNames; more > 0 {
		return strings.Join(services[:maxNames], ",") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(services, ",")
}
