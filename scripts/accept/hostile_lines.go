package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/model"
)

// hostileLine is a line for `transmsg publish --jsonl -` and what its error must name; a
// good one has an id and no name.
type hostileLine struct{ text, name, id string }

// lines gives the command line hostile JSON, with good lines in between.
func (h *hostile) lines(ctx context.Context) error {
	list := h.hostileLines()
	for range 10 {
		l := hostileLine{id: uuid.NewString()}
		body := bytesOf(h.Rand, 40)
		l.text = fmt.Sprintf(`{"id":%q,"exchange":%s,"body_base64":%q}`, l.id, quoted(h.exchange),
			base64.StdEncoding.EncodeToString(body))
		h.good[l.id] = model.Message{Exchange: h.exchange, Body: body}
		list = append(list, l)
	}
	h.Rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var in bytes.Buffer
	for _, l := range list {
		in.WriteString(l.text + "\n")
	}
	out, err := h.publishLines(ctx, &in)
	if err != nil {
		return err
	}
	results := map[int]hostileResult{}
	for line := range strings.Lines(out) {
		var r hostileResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("result %.200q: %w", line, err)
		}
		results[r.Line] = r
	}
	for i, l := range list {
		h.lineResult(l, results[i+1])
	}
	h.Breaches.Equal("results of lines", len(results), len(list))
	h.figs["lines_refused"] = len(list) - 10
	return h.nothingStored(ctx, "hostile lines")
}

// hostileResult is a line of what publish --json prints.
type hostileResult struct {
	Line              int
	ID, Outcome, Text string
}

func (h *hostile) lineResult(l hostileLine, r hostileResult) {
	if l.id != "" {
		h.Breaches.Check(r.ID == l.id && r.Outcome == "acked", "the good line %s: %+v", l.id, r)
		return
	}
	h.Breaches.Check((r.Outcome == "malformed" || r.Outcome == "invalid") && strings.Contains(r.Text, l.name),
		"line %.100q: got %s %.200q, want it refused with %q", l.text, r.Outcome, r.Text, l.name)
}

// publishLines runs publish on the lines; it must say that some were skipped.
func (h *hostile) publishLines(ctx context.Context, in *bytes.Buffer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.binary, "publish", "--jsonl", "-", "--json", "--on-error", "skip",
		"--service", serviceName, "--store", h.dsn, "--amqp", h.url)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = h.Dir, plainEnv(), in, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	h.Breaches.Equal("exit status of publish with bad lines", cmd.ProcessState.ExitCode(), 1)
	h.Breaches.Check(!strings.Contains(errs.String(), "panic"), "publish: %.2000s", errs.String())
	return out.String(), nil
}

// quoted is JSON for a text that is UTF-8.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always can
	return string(b)
}

func (h *hostile) hostileLines() []hostileLine {
	var list []hostileLine
	add := func(field, value string) {
		text := fmt.Sprintf(`{"exchange":%s,%q:%s}`, quoted(h.exchange), field, value)
		if field == "exchange" {
			text = fmt.Sprintf(`{"exchange":%s}`, value)
		}
		list = append(list, hostileLine{text: text, name: field})
	}
	texts := []string{"exchange", "id", "user_id", "timestamp", "not_before", "expiration", "body", "body_base64"}
	for _, f := range textFields() {
		texts = append(texts, f.name)
	}
	wrong := []string{"5", "null", "true", "[]", `["a"]`, `{}`, `{"a":"b"}`, "1e999", "-0"}
	for _, field := range texts {
		add(field, wrong[h.Rand.IntN(len(wrong))])
		add(field, wrong[h.Rand.IntN(len(wrong))])
		if strings.HasPrefix(field, "body") {
			continue // any text is a body
		}
		for _, t := range h.texts() {
			if t.what != noUTF8 {
				add(field, quoted(t.text))
			}
		}
	}
	values := h.hostileFields()
	for _, field := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[field] {
			add(field, v)
		}
	}
	return append(list, noFields()...)
}

// hostileFields are values for fields that are more than a text, and fields that are none.
func (h *hostile) hostileFields() map[string][]string {
	return map[string][]string{
		"priority":         {"-1", "256", "1.5", `"1"`, "null", "1e2", "99999999999999999999", "[]"},
		"allow_unroutable": {"1", `"true"`, "null", "[]", "0"},
		"headers": {
			"[]", `"x"`, "5", "null", "true", `{"a":1e999}`, `{"a":9223372036854775808}`, `{"a":-9223372036854775809}`,
			`{"a":1,"a":2}`, `{"CC":["q"]}`, `{"a":` + strings.Repeat("[", 45) + strings.Repeat("]", 45) + "}",
			`{"a\u0000":1}`, `{` + quoted(letters(h.Rand, 256)) + `:1}`, `{"a":[{"b":[1e400]}]}`,
		},
		"timestamp": {
			`"1969-12-31T23:59:59Z"`, `"2026-02-30T00:00:00Z"`, `"now"`, `""`, `"10000-01-01T00:00:00Z"`,
		},
		"not_before":       {`"tomorrow"`, `"2026-13-01T00:00:00Z"`, `"90s"`, `""`},
		"body_base64":      {`"%%%"`, `"YQ"`, `"YQ==="`, `"Y Q=="`},
		"Exchange":         {`"e"`},
		letters(h.Rand, 8): {"1"},
	}
}

// noFields are lines in which no field can be told.
func noFields() []hostileLine {
	return []hostileLine{
		{text: "{\"exchange\u200b\":\"e\"}", name: "unknown field"},
		{text: "{\"body\":\"\xff\"}", name: "UTF-8"},
		{text: `{"body":"\ud800"}`, name: `\ud800`},
		{text: `[]`, name: "object"},
		{text: `"{}"`, name: "object"},
		{text: `{"body":"a"`, name: "JSON"},
		{text: `{"body":"a"}{}`, name: "one object a line"},
		{text: `{"body":"a","json":1}`, name: "json"},
		{text: `{"key":"a","key":"b"}`, name: "key"},
		{text: "\x00{}", name: "JSON"},
		{text: strings.Repeat("[", 100_000), name: "JSON"},
	}
}
