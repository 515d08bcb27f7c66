package breaker

import (
	"testing"

	"github.com/transmsg/transmsg/model"
)

// The reply code and the right decide who is to blame, whatever the broker's words are.
func TestBlame(t *testing.T) {
	t.Parallel()
	exchange := Target{Kind: Exchange, Exchange: "ex"}
	topic := Target{Kind: Topic, Exchange: "ex", Key: "k"}
	route := Target{Kind: Route, Exchange: "ex", Key: "k"}
	suspect := func(reply int, right model.Right) model.Outcome {
		return model.Outcome{Kind: model.Unknown, Code: model.CodeSuspect, Reply: reply, Refused: right, Text: "words"}
	}
	refused := func(code model.CauseCode, right model.Right) model.Outcome {
		return model.Outcome{Kind: model.Refused, Code: code, Refused: right, Text: "words"}
	}
	for name, c := range map[string]struct {
		o     model.Outcome
		want  Target
		blame bool
	}{
		"refused, exchange missing": {refused(model.CodeNotFound, 0), exchange, true},
		"refused, no right":         {refused(model.CodeAccessRefused, model.ExchangeRight), exchange, true},
		"refused, no topic right":   {refused(model.CodeAccessRefused, model.TopicRight), topic, true},
		"suspect of 404":            {suspect(404, 0), exchange, true},
		"suspect of 403":            {suspect(403, model.ExchangeRight), exchange, true},
		"suspect, its own topic":    {suspect(403, model.TopicRight), topic, true},
		"suspect, another's topic":  {suspect(403, model.OtherTopicRight), Target{}, false},
		"suspect of 406":            {suspect(406, 0), Target{}, false},
		"suspect of 541":            {suspect(541, 0), Target{}, false},
		"no confirm":                {model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout}, route, true},
		"too large":                 {refused(model.CodePrecondition, 0), Target{}, false},
		"acked":                     {model.Outcome{Kind: model.Acked}, Target{}, false},
		"a text that looks like it": {model.Outcome{
			Kind: model.Refused, Code: model.CodeOther, Text: "403 access to topic 'k' in exchange 'ex'",
		}, Target{}, false},
	} {
		if got, ok := blame("ex", "k", c.o); ok != c.blame || (ok && got != c.want) {
			t.Errorf("%s: blames %+v, %v; want %+v, %v", name, got, ok, c.want, c.blame)
		}
	}
}
