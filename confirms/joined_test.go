package confirms_test

import (
	"testing"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/fanout/fanouttest"
)

func TestEveryObserverIsCalled(t *testing.T) {
	t.Parallel()
	fanouttest.Check(t, confirms.Joined)
}
