package bench_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/bench"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

func tinyConfig(t *testing.T, store string) bench.Config {
	t.Helper()
	broker, err := confirms.ParseURL(amqptest.VHost(t))
	if err != nil {
		t.Fatal(err)
	}
	return bench.Config{
		Store: store, Broker: broker, Quick: true, Messages: 100, Repetitions: 1, Callers: []int{1, 64, 256},
		Progress: t.Output(),
	}
}

// stores are the shared servers; each test's own schema only names one.
func stores(t *testing.T) map[string]string {
	return map[string]string{
		"mysql": dbtest.MySQL(t), "postgres": dbtest.Postgres(t), "sqlite": "sqlite:" + dbtest.SQLite(t),
	}
}

// Every workload runs, nothing is lost or repeated, and the report has its documented
// keys.
func TestRunMeasuresEveryWorkloadAndLosesNothing(t *testing.T) {
	for kind, store := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			rep, err := bench.Run(t.Context(), tinyConfig(t, store))
			if err != nil {
				t.Fatal(err)
			}
			var table bytes.Buffer
			if err := rep.WriteTable(&table); err != nil || !strings.Contains(table.String(), "lost 0, repeats 0") {
				t.Errorf("the table does not end as it must: %v\n%s", err, &table)
			}
			checkJSON(t, rep)
			checkSVG(t, rep.Chart().SVG())
		})
	}
}

func checkJSON(t *testing.T, rep *bench.Report) {
	t.Helper()
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		RawPublish *float64 `json:"raw_publish"`
		RawStore   *float64 `json:"raw_store"`
		Limit      *float64
		Lost       *int
		Repeats    *int
		Settings   []struct{ Name, Value string }
		Workloads  []map[string]any
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.RawPublish == nil || got.RawStore == nil || got.Limit == nil || *got.Limit <= 0 ||
		*got.Limit >= min(*got.RawPublish, *got.RawStore) {
		t.Errorf("raw figures are missing or the limit is not below them: %s", b)
	}
	if got.Lost == nil || *got.Lost != 0 || got.Repeats == nil || *got.Repeats != 0 || len(got.Settings) == 0 {
		t.Errorf("lost, repeats or settings are missing or not 0: %s", b)
	}
	var names []string
	for _, w := range got.Workloads {
		name, _ := w["name"].(string)
		names = append(names, name)
		for _, key := range []string{"callers", "rate", "of_limit"} {
			if v, ok := w[key].(float64); !ok || v <= 0 {
				t.Errorf("%s: %s is %v, want a positive number", name, key, w[key])
			}
		}
		checkKeys(t, name, w)
	}
	for _, want := range bench.Workloads() {
		if !slices.Contains(names, want) {
			t.Errorf("no workload %s in %v", want, names)
		}
	}
}

// checkKeys checks the keys that only some workloads fill; all have them.
func checkKeys(t *testing.T, name string, w map[string]any) {
	t.Helper()
	filled := map[string][]string{
		"of_naive":           {"naive", "publish", "batch"},
		"of_reference":       {"tx", "latency", "consume", "consume-inbox"},
		"publish_p50_us":     {"publish", "latency", "growth"},
		"publish_p99_us":     {"publish", "latency", "growth"},
		"confirm_p50_us":     {"publish", "latency", "growth"},
		"confirm_p95_us":     {"publish", "latency", "growth"},
		"raw_insert_p50_us":  {"latency"},
		"raw_publish_p50_us": {"latency"},
		"allocs_per_message": {"publish", "batch", "tx", "latency", "drain", "growth"},
	}
	for key, by := range filled {
		v, there := w[key]
		if !there {
			t.Errorf("%s: no key %s", name, key)
		}
		if n, ok := v.(float64); slices.Contains(by, name) && (!ok || n <= 0) {
			t.Errorf("%s: %s is %v, want a positive number", name, key, v)
		}
	}
}

func checkSVG(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the chart is not well-formed: %v", err)
		}
	}
	if !bytes.Contains(svg, []byte("publish, 256 callers")) || !bytes.Contains(svg, []byte("limit L")) {
		t.Error("the chart lacks a bar or the limit")
	}
}

// A message that is lost, there twice or a stranger's must be seen: otherwise no figure
// proves anything.
func TestCheckSeesWhatIsLostRepeatedOrUnknown(t *testing.T) {
	w, err := bench.Open(t.Context(), tinyConfig(t, "sqlite:"+dbtest.SQLite(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	here, twice, lost, stranger := model.NewID(), model.NewID(), model.NewID(), model.NewID()
	publish(t, w, here, twice, twice, stranger)
	err = w.Check(t.Context(), slices.Values([]string{here, twice, lost}))
	if err == nil || !strings.Contains(err.Error(), "lost 1, repeats 1, unknown 1") {
		t.Errorf("got %v, want one of each", err)
	}
	if want := (bench.Tally{Lost: 1, Repeats: 1, Unknown: 1}); w.Tally != want {
		t.Errorf("tally %+v, want %+v", w.Tally, want)
	}
	publish(t, w, here)
	if err := w.Check(t.Context(), slices.Values([]string{here})); err != nil {
		t.Errorf("the check did not empty the queue, or refuses what is right: %v", err)
	}
}

func publish(t *testing.T, w *bench.World, ids ...string) {
	t.Helper()
	conn, err := w.Broker.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	for _, id := range ids {
		if err != nil {
			break
		}
		var dc *amqp.DeferredConfirmation
		dc, err = ch.PublishWithDeferredConfirmWithContext(t.Context(), w.Broker.Exchange, bench.Key, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id})
		if err == nil && !dc.Wait() {
			err = errors.New("nacked")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
