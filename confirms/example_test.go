package confirms_test

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

type printer chan model.Outcome

func (p printer) Done(o model.Outcome) { p <- o }
func (printer) LateAck()               {}

func Example() {
	cfg, err := confirms.ParseURL("amqp://guest:guest@127.0.0.1:5672/")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := confirms.Open(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)

	m, err := model.Normalize(model.Message{
		Exchange: "", RoutingKey: "no-such-queue", Body: []byte("hello"),
	}, time.Now(), model.Limits{FrameMax: s.FrameMax()})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Reserve(ctx, 1, int64(len(m.Body))); err != nil {
		fmt.Println(err)
		return
	}
	outcome := make(printer, 1)
	s.Send(confirms.Send{Message: &m, Since: time.Now(), Within: 5 * time.Second, Handler: outcome})
	fmt.Println(<-outcome)
	// Output: returned (312 NO_ROUTE)
}
