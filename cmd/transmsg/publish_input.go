package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// maxBodyInput bounds what is read as the body of one message: the validator refuses far
// smaller ones, but only what was read can be measured.
const maxBodyInput = 256 << 20

// messageFlags describe one message on the command line.
type messageFlags struct {
	m                    model.Message
	body, bodyFile       string
	headers              []string
	notBefore, timestamp string
	jsonl                string
	delay                *time.Duration // --not-before given as a duration
	fs                   *pflag.FlagSet
}

// bindContent adds the flags of what a message is and where it goes.
func (f *messageFlags) bindContent(fs *pflag.FlagSet) {
	f.bindReceived(fs)
	fs.StringVar(&f.m.Exchange, "exchange", "",
		"target exchange; empty is the default exchange, which routes by queue name")
	fs.StringVar(&f.m.RoutingKey, "routing-key", "", "routing key, at most 255 bytes")
	fs.StringVar(&f.m.Key, "key", "", "business key, such as an order number; shown to operators, never sent")
	fs.BoolVar(&f.m.AllowUnroutable, "allow-unroutable", false, "an ack is enough, no queue need take the message")
	fs.StringVar(&f.m.Properties.Expiration, "expiration", "", "time to live in the queue, in milliseconds")
}

// bindReceived adds the flags of what a consumer receives.
func (f *messageFlags) bindReceived(fs *pflag.FlagSet) {
	f.fs = fs
	p := &f.m.Properties
	fs.StringVar(&f.body, "body", "", "body as `text`")
	fs.StringVar(&f.bodyFile, "body-file", "", "`file` with the body, byte for byte; - is stdin")
	fs.StringArrayVar(&f.headers, "header", nil, "header as `name=text`; repeat for more")
	fs.StringVar(&p.ContentType, "content-type", "", "content type")
	fs.StringVar(&p.ContentEncoding, "content-encoding", "", "content encoding")
	fs.StringVar(&p.CorrelationID, "correlation-id", "", "correlation id")
	fs.StringVar(&p.ReplyTo, "reply-to", "", "reply queue")
	fs.StringVar(&p.Type, "type", "", "message type")
	fs.StringVar(&p.AppID, "app-id", "", "application id")
	fs.Uint8Var(&p.Priority, "priority", 0, "priority, 0 to 255")
	fs.StringVar(&f.timestamp, "timestamp", "", "timestamp property as a `time` (default that of the publish)")
}

// bind adds those of content and those of one publish.
func (f *messageFlags) bind(fs *pflag.FlagSet) {
	f.bindContent(fs)
	fs.StringVar(&f.m.ID, "id", "",
		"message id, a UUID; repeating a publish with it is still one message (default a new one)")
	fs.Int64Var(&f.m.Revision, "revision", 0,
		"a `number` that grows with the state that the message tells of, so that consumers drop older ones (0: none)")
	fs.StringVar(&f.notBefore, "not-before", "",
		"hold the message back until this `time` (2026-01-31T09:30:00Z) or for this duration (90s), by the database's "+
			"clock; a compensator sends it")
	fs.StringVar(&f.jsonl, "jsonl", "", "publish a stream of JSON lines from this `file` instead; - is stdin")
}

// given reports whether one of the flags is on the command line.
func (f *messageFlags) given(names ...string) bool {
	return slices.ContainsFunc(names, f.fs.Changed)
}

// overlay sets the properties whose flags were given.
func (f *messageFlags) overlay(p *model.Properties) {
	from := &f.m.Properties
	for _, field := range [...]struct {
		flag     string
		dst, src *string
	}{
		{"content-type", &p.ContentType, &from.ContentType},
		{"content-encoding", &p.ContentEncoding, &from.ContentEncoding},
		{"correlation-id", &p.CorrelationID, &from.CorrelationID},
		{"reply-to", &p.ReplyTo, &from.ReplyTo},
		{"expiration", &p.Expiration, &from.Expiration},
		{"type", &p.Type, &from.Type},
		{"app-id", &p.AppID, &from.AppID},
	} {
		if f.given(field.flag) {
			*field.dst = *field.src
		}
	}
	if f.given("priority") {
		p.Priority = from.Priority
	}
	if f.given("timestamp") {
		p.Timestamp = from.Timestamp
	}
}

// messageFlagNames are the flags that describe one message, and so contradict --jsonl.
var messageFlagNames = []string{
	"exchange", "routing-key", "body", "body-file", "header", "id", "key", "not-before", "allow-unroutable",
	"content-type", "content-encoding", "correlation-id", "reply-to", "expiration", "type", "app-id", "priority",
	"timestamp", "revision",
}

// source returns the messages to publish: the lines of --jsonl, or the one message of the
// flags. The caller closes it.
func (f *messageFlags) source(a *app) (*source, error) {
	if f.jsonl == "" {
		m, err := f.message(a)
		if err != nil {
			return nil, err
		}
		return &source{one: &m, delay: f.delay}, nil
	}
	for _, name := range messageFlagNames {
		if f.fs.Changed(name) {
			return nil, usagef("--%s and --jsonl: with --jsonl each line says it", name)
		}
	}
	in, closer, err := a.open("--jsonl", f.jsonl)
	if err != nil {
		return nil, err
	}
	return &source{lines: newLineReader(in, maxLine), closer: closer}, nil
}

// message is the one message that the flags describe.
func (f *messageFlags) message(a *app) (model.Message, error) {
	if !f.fs.Changed("routing-key") && !f.fs.Changed("exchange") {
		return f.m, usagef("nothing to publish: give --exchange and --routing-key (or --routing-key QUEUE for a " +
			"queue by name), or --jsonl FILE")
	}
	err := f.parse(a)
	return f.m, err
}

// parse reads the flags that are more than a value: body, headers and times.
func (f *messageFlags) parse(a *app) error {
	if f.fs.Changed("body") && f.bodyFile != "" {
		return usagef("--body and --body-file: give one of them")
	}
	f.m.Body = []byte(f.body)
	if err := errors.Join(f.parseHeaders(), f.parseTimes()); err != nil {
		return err
	}
	if f.bodyFile == "" {
		return nil
	}
	in, closer, err := a.open("--body-file", f.bodyFile)
	if err != nil {
		return err
	}
	defer closer()
	f.m.Body, err = io.ReadAll(io.LimitReader(in, maxBodyInput+1))
	switch {
	case err != nil:
		return fmt.Errorf("--body-file: read: %w", err)
	case len(f.m.Body) > maxBodyInput:
		return fmt.Errorf("--body-file: more than %d bytes", maxBodyInput)
	}
	return nil
}

func (f *messageFlags) parseHeaders() error {
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return usagef("--header %q must be name=text", h)
		}
		if _, twice := f.m.Headers[name]; twice {
			return usagef("--header %s is given twice", name)
		}
		if f.m.Headers == nil {
			f.m.Headers = map[string]any{}
		}
		f.m.Headers[name] = value
	}
	return nil
}

func (f *messageFlags) parseTimes() error {
	var err error
	if f.timestamp != "" {
		if f.m.Properties.Timestamp, err = time.Parse(time.RFC3339, f.timestamp); err != nil {
			return usagef("--timestamp %q must be a time like 2026-01-31T09:30:00Z", f.timestamp)
		}
	}
	if f.notBefore == "" {
		return nil
	}
	if d, err := time.ParseDuration(f.notBefore); err == nil {
		f.delay = &d
		return nil
	}
	if f.m.NotBefore, err = time.Parse(time.RFC3339, f.notBefore); err != nil {
		return usagef("--not-before %q must be a time like 2026-01-31T09:30:00Z or a duration like 90s", f.notBefore)
	}
	return nil
}

// open opens an input file; - is stdin. what begins its error: the flag that names it.
func (a *app) open(what, path string) (io.Reader, func(), error) {
	if path == "-" {
		return a.stdin, func() {}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, usagef("%s: open %s: %w", what, path, pathCause(err))
	}
	return file, func() { _ = file.Close() }, nil // it was only read
}

// source yields the messages to publish.
type source struct {
	one    *model.Message
	delay  *time.Duration // until one may be sent, from now on
	lines  *lineReader
	closer func()
}

// resolve turns a delay into an instant of the database's clock, which decides.
func (s *source) resolve(ctx context.Context, store *gormstore.Store) error {
	if s.delay == nil {
		return nil
	}
	now, err := store.Now(ctx)
	if err == nil {
		s.one.NotBefore = time.UnixMilli(now).Add(*s.delay)
	}
	return err
}

func (s *source) close() {
	if s.closer != nil {
		s.closer()
	}
}

// badLineError is a line that is no message. The next one can be read.
type badLineError struct{ err error }

// Error implements error.
func (b badLineError) Error() string { return b.err.Error() }

// next returns the next message and its line, 1 for the only one. io.EOF is the end; a
// badLineError can be skipped; any other error ends the stream.
func (s *source) next() (m model.Message, line int, err error) {
	if s.lines == nil {
		if s.one == nil {
			return m, 1, io.EOF
		}
		m, s.one = *s.one, nil
		return m, 1, nil
	}
	raw, err := s.lines.next()
	switch {
	case errors.Is(err, errLongLine):
		return m, s.lines.number, badLineError{err}
	case err != nil:
		return m, s.lines.number, err
	}
	if m, err = parseLine(raw); err != nil {
		return m, s.lines.number, badLineError{err}
	}
	return m, s.lines.number, nil
}

// read feeds the messages into a channel until the end, an error or the end of ctx. It is
// a goroutine of its own because a read of a terminal or pipe cannot be interrupted: the
// caller waits for it unless ctx has ended, when the process is about to end too.
func (s *source) read(ctx context.Context, out chan<- input) {
	defer close(out)
	for {
		m, line, err := s.next()
		if errors.Is(err, io.EOF) {
			return
		}
		select {
		case out <- input{message: m, line: line, err: err}:
		case <-ctx.Done():
			return
		}
		var bad badLineError
		if err != nil && !errors.As(err, &bad) {
			return
		}
	}
}

// input is one message read, or the error of its line.
type input struct {
	message model.Message
	line    int
	err     error
}
