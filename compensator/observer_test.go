package compensator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
)

// A database that does not answer shows in the Observer with what was asked of it.
func TestObserverHearsOfStoreErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		down := errors.New("database down")
		store.setErr(down)
		failed := make(chan string, 100)
		r := start(t, compensator.Config{
			Store: store, Sender: newSender(),
			Observers: []compensator.Observer{{StoreError: func(op string, err error) {
				if errors.Is(err, down) {
					failed <- op
				}
			}}},
		})
		time.Sleep(10 * time.Millisecond) // fake time: the first run is over
		synctest.Wait()
		select {
		case op := <-failed:
			if op != "services" {
				t.Errorf("operation %q, want services", op)
			}
		default:
			t.Error("no error was told")
		}
		r.drained(t)
	})
}
