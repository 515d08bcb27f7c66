package alert

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/transmsg/transmsg/model"
)

// Sink delivers one alert; nil means accepted.
type Sink interface {
	Alert(ctx context.Context, a model.Alert) error
}

// Multi hands each alert to all its sinks at the same time and accepts it when all of them
// did. When one did not, the alert comes again to all. A compensator's Config.Alerters tells
// several sinks each by itself.
type Multi []Sink

// Alert waits for every sink, and returns what those said that did not accept. A sink that
// panics did not.
func (m Multi) Alert(ctx context.Context, a model.Alert) error {
	errs := make([]error, len(m))
	var wg sync.WaitGroup
	for i, s := range m {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("sink panicked: %v", p)
				}
			}()
			errs[i] = s.Alert(ctx, a)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
