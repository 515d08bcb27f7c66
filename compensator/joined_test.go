package compensator_test

import (
	"testing"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/fanout/fanouttest"
)

func TestEveryObserverIsCalled(t *testing.T) {
	t.Parallel()
	fanouttest.Check(t, compensator.Joined)
}
