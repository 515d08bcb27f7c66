package publisher_test

import (
	"testing"

	"github.com/transmsg/transmsg/internal/fanout/fanouttest"
	"github.com/transmsg/transmsg/publisher"
)

func TestEveryObserverIsCalled(t *testing.T) {
	t.Parallel()
	fanouttest.Check(t, publisher.Joined)
}
