package bench_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/bench"
	"github.com/transmsg/transmsg/model"
)

// The raw loops must write rows as large as the product's.
func TestRawRowsHaveTheProductsBytes(t *testing.T) {
	m := model.Message{Properties: model.Properties{
		ContentType: bench.ContentType, Timestamp: time.Unix(1790000000, 0),
	}}
	if got := string(model.EncodeProperties(&m, true)); got != bench.RowProperties {
		t.Errorf("the product stores %s, the raw loops %s", got, bench.RowProperties)
	}
	if want := len("transmsg-bench-") + 16; len(bench.RowExchange) != want {
		t.Errorf("the raw loops' exchange has %d bytes, the real one %d", len(bench.RowExchange), want)
	}
}

func TestBodyIsJSONOfExactlyTheSize(t *testing.T) {
	for _, size := range []int{16, 100, 1024, 65536} {
		body := bench.MakeBody(size)
		if len(body) != size || !json.Valid(body) {
			t.Errorf("body of %d bytes, valid %v, want %d", len(body), json.Valid(body), size)
		}
	}
}

func TestFillIDsAreDistinctCanonicalAndRising(t *testing.T) {
	ids := bench.IDs(70_000) // more than two bytes count
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Error("ids are not distinct and rising")
	}
	for _, i := range []int{0, 65_535, 65_536, 69_999} {
		u, err := uuid.Parse(ids[i])
		if err != nil || u.String() != ids[i] || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Errorf("id %d: %s is no canonical version 7 UUID: %v", i, ids[i], err)
		}
	}
}

func TestRelaxedSettingsAreRefusedByName(t *testing.T) {
	mysql := func(flush, doublewrite, logBin, sync string) []bench.Setting {
		return []bench.Setting{
			{"innodb_flush_log_at_trx_commit", flush},
			{"innodb_flush_method", "O_DIRECT"},
			{"innodb_doublewrite", doublewrite},
			{"log_bin", logBin},
			{"sync_binlog", sync},
		}
	}
	postgres := func(fsync, commit, pages string) []bench.Setting {
		return []bench.Setting{{"fsync", fsync}, {"synchronous_commit", commit}, {"full_page_writes", pages}}
	}
	sqlite := func(journal, synchronous string) []bench.Setting {
		return []bench.Setting{{"journal_mode", journal}, {"synchronous", synchronous}}
	}
	for name, c := range map[string]struct {
		kind     string
		settings []bench.Setting
		refused  string
	}{
		"mysql":                   {"mysql", mysql("1", "1", "1", "1"), ""},
		"mysql 8 words":           {"mysql", mysql("1", "ON", "ON", "1"), ""},
		"no binlog":               {"mysql", mysql("1", "1", "0", "0"), ""},
		"flush 2":                 {"mysql", mysql("2", "1", "0", "0"), "innodb_flush_log_at_trx_commit is 2"},
		"flush 0":                 {"mysql", mysql("0", "1", "0", "0"), "innodb_flush_log_at_trx_commit is 0"},
		"no doublewrite":          {"mysql", mysql("1", "OFF", "0", "0"), "innodb_doublewrite is off"},
		"doublewrite detect only": {"mysql", mysql("1", "DETECT_ONLY", "0", "0"), "innodb_doublewrite is detect_only"},
		"binlog not synced":       {"mysql", mysql("1", "1", "1", "0"), "sync_binlog is 0"},
		"postgres":                {"postgres", postgres("on", "on", "on"), ""},
		"postgres local":          {"postgres", postgres("on", "local", "on"), ""},
		"fsync off":               {"postgres", postgres("off", "on", "on"), "fsync is off"},
		"asynchronous commit":     {"postgres", postgres("on", "off", "on"), "synchronous_commit is off"},
		"torn pages":              {"postgres", postgres("on", "on", "off"), "full_page_writes is off"},
		"sqlite":                  {"sqlite", sqlite("wal", "2"), ""},
		"sqlite normal":           {"sqlite", sqlite("wal", "1"), "synchronous is 1"},
		"sqlite journal off":      {"sqlite", sqlite("off", "2"), "journal_mode is off"},
	} {
		t.Run(name, func(t *testing.T) {
			err := bench.Judge(c.kind, c.settings)
			if c.refused == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want an error with %q", err, c.refused)
			}
		})
	}
}

func TestConfigIsRefusedByNameValueAndBound(t *testing.T) {
	broker := confirms.Config{
		Addrs:       []string{"127.0.0.1:5672"},
		Credentials: func(context.Context) (string, string, error) { return "guest", "guest", nil },
	}
	for name, c := range map[string]struct {
		cfg  bench.Config
		want string
	}{
		"defaults":    {bench.Config{Broker: broker}, ""},
		"kind":        {bench.Config{Broker: broker, Store: "postgres"}, ""},
		"dsn":         {bench.Config{Broker: broker, Store: "mysql://u:p@h:3306/"}, ""},
		"driver form": {bench.Config{Broker: broker, Store: "u:p@tcp(h:3306)/"}, ""},
		"store":       {bench.Config{Broker: broker, Store: "oracle"}, "store has no known form"},
		"password":    {bench.Config{Broker: broker, Store: "mysql://u:se%cret@h/"}, "percent-encode"},
		"queue":       {bench.Config{Broker: broker, Queue: "stream"}, `queue "stream" must be quorum or classic`},
		"body":        {bench.Config{Broker: broker, Body: 8}, "body 8 must be 16 to 1048576"},
		"messages":    {bench.Config{Broker: broker, Messages: 5}, "messages 5 must be 100 to 1000000"},
		"repetitions": {bench.Config{Broker: broker, Repetitions: 51}, "repetitions 51 must be 1 to 50"},
		"workload":    {bench.Config{Broker: broker, Only: []string{"drian"}}, `workload "drian" must be one of naive`},
		"callers":     {bench.Config{Broker: broker, Callers: []int{0}}, "callers 0 must be 1 to 10000"},
		"no broker":   {bench.Config{}, "broker has no address"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cfg.Validate()
			if c.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "se%cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}
