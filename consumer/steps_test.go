package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/proc"
)

// K4: the broker restarts with a copy in a step, and cannot forward it. The step's oldest message is seen to be there
// beyond its step, also where the broker holds it for forwarding; it is handled once the queue is back.
func TestK4_OldestInStepIsSeen(t *testing.T) {
	t.Parallel()
	ports, err := proc.FreePorts(1)
	must(t, err)
	node := amqptest.StartNode(t, amqptest.Options{
		Plugins: []string{"rabbitmq_management"},
		Config: []string{
			"management.tcp.ip = 127.0.0.1", fmt.Sprintf("management.tcp.port = %d", ports[0]),
			"collect_statistics_interval = 1000",
		},
	})
	// How long the step waits after a refusal: three minutes else. It outlives the stop of the application.
	_, err = node.Eval("application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).")
	must(t, err)
	w := worldOn(t, node.URL())
	api := func(cfg *consumer.Config) {
		cfg.Management.URL = func(context.Context) (string, error) {
			return "http://guest:guest@" + proc.Loopback(ports[0]), nil
		}
	}
	r := w.run(w.queue(nil), api)
	eventually(t, "the empty steps are seen", func() bool {
		steps := r.stats().Steps
		return len(steps) == 2 && steps[0].Messages == 0 && steps[0].Oldest == 0
	})
	must(t, w.client.DeleteQueue(workQueue))
	w.isState(r, consumer.StateMissing)
	must(t, w.client.Publish(t.Context(), "", w.ladder.StepQueue(0), amqp.Publishing{
		MessageId: "m", DeliveryMode: amqp.Persistent,
	}))
	_, err = node.Ctl("stop_app")
	must(t, err)
	eventually(t, "nothing is known of the steps", func() bool { return r.stats().Steps == nil })
	_, err = node.Ctl("start_app")
	must(t, err)
	eventually(t, "the copy is seen to be late", func() bool {
		steps := r.stats().Steps
		return len(steps) == 2 && steps[0].Messages == 1 && steps[0].Forwarding == 1 &&
			steps[0].Oldest > steps[0].Step && steps[1].Messages == 0 && steps[1].Oldest == 0
	})
	w.client = amqptest.Connect(t, node.URL())
	must(t, w.client.Queue(amqptest.QueueSpec{Name: workQueue, Type: amqptest.Quorum}))
	eventually(t, "the copy is handled", func() bool { return len(w.got.of("m")) == 1 })
	eventually(t, "the step is empty", func() bool {
		steps := r.stats().Steps
		return len(steps) == 2 && steps[0].Messages == 0 && steps[0].Oldest == 0
	})
}

// The age of the oldest follows from how many came and how many are there.
func TestStepAges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		looks [][2]int // messages there, and published by the broker's count; a minute apart
		want  []int    // minutes
	}{
		{"empty", [][2]int{{0, 0}, {0, 0}}, []int{0, 0}},
		{"one that stays", [][2]int{{0, 0}, {1, 1}, {1, 1}, {1, 1}}, []int{0, 0, 1, 2}},
		{"each is there for two looks", [][2]int{{10, 10}, {20, 20}, {20, 30}, {20, 40}}, []int{0, 1, 1, 1}},
		{"one stays behind the others", [][2]int{{1, 1}, {11, 11}, {21, 21}, {31, 31}}, []int{0, 1, 2, 3}},
		{"it gets empty", [][2]int{{5, 5}, {5, 5}, {0, 5}, {1, 6}}, []int{0, 1, 0, 0}},
		{"the broker's count begins anew", [][2]int{{5, 500}, {5, 0}, {6, 1}, {1, 1}, {0, 1}}, []int{0, 1, 2, 1, 0}},
		{"the count lags behind", [][2]int{{0, 0}, {0, 0}, {1, 0}, {1, 1}, {1, 1}}, []int{0, 0, 0, 0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ages, now := consumer.NewStepAges(), time.Now()
			for i, look := range tt.looks {
				now = now.Add(time.Minute)
				if got, _ := ages(look[0], int64(look[1]), now); got != time.Duration(tt.want[i])*time.Minute {
					t.Errorf("look %d: %v, want %d minutes", i, got, tt.want[i])
				}
			}
		})
	}
}

// However long a message stays, what is remembered is bounded, and its age is right.
func TestStepAgesAreBounded(t *testing.T) {
	t.Parallel()
	ages, begin := consumer.NewStepAges(), time.Now()
	for i := range 5 * consumer.MaxSamples {
		got, kept := ages(1, 1, begin.Add(time.Duration(i)*time.Minute))
		if want := time.Duration(i) * time.Minute; got != want || kept > consumer.MaxSamples {
			t.Fatalf("look %d: %v, want %v; %d looks are kept", i, got, want, kept)
		}
	}
}
