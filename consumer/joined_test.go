package consumer_test

import (
	"testing"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/fanout/fanouttest"
)

func TestEveryObserverIsCalled(t *testing.T) {
	t.Parallel()
	fanouttest.Check(t, consumer.Joined)
}
