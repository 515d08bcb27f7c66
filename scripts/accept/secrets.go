package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/store/gormstore"
)

// secretsCheck puts a canary wherever a password or token can be, provokes what can
// fail, and searches all that came out.
func secretsCheck() check {
	return check{
		name: "secrets",
		about: "canary passwords in every URL, DSN and token, every failure provoked: " +
			"none in any log, error, metric, alert or output; and no name that equals a secret is altered",
		run: onServer(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			s := &secrets{world: w, canaries: map[string]string{}, figs: figures{}}
			for _, part := range []func(context.Context) error{s.wrong, s.library, s.alive, s.stored, s.names} {
				if err := part(ctx); err != nil {
					return s.figs, err
				}
			}
			s.figs["canaries"], s.figs["texts_searched"] = len(s.canaries), s.searched
			return s.figs, nil
		}),
	}
}

type secrets struct {
	*world
	canaries map[string]string // by what it is the secret of
	searched int
	figs     figures
}

// canary returns a fresh secret. Between two halves, which no encoding changes, are
// seeded characters that have to be encoded somewhere.
func (s *secrets) canary(of string) string {
	if _, ok := s.canaries[of]; ok {
		of = fmt.Sprintf("%s %d", of, len(s.canaries))
	}
	const special = "/?#[]@:!$&'()*+,;=%^|{}~ \"<>\\"
	mid := ""
	for range 1 + s.Rand.IntN(4) {
		mid += string(special[s.Rand.IntN(len(special))])
	}
	c := "zq" + letters(s.Rand, 8) + mid + "qz" + letters(s.Rand, 8)
	s.canaries[of] = c
	return c
}

// search looks for every canary, whole, in halves or in base64, in a text of the product.
func (s *secrets) search(where, text string) {
	s.searched++
	for of, c := range s.canaries {
		for _, part := range []string{
			c[:10], c[len(c)-10:], base64.StdEncoding.EncodeToString([]byte(c))[:12],
			base64.StdEncoding.EncodeToString([]byte("app:" + c))[:16],
		} {
			if at := strings.Index(text, part); at >= 0 {
				s.Breaches.Add("the secret of %s is in %s: ...%.160q", of, where, text[max(0, at-80):])
				break
			}
		}
	}
}

// try runs the binary until it ends, or for at most so long, and searches its output. It
// returns the exit status and the output.
func (s *secrets) try(ctx context.Context, limit time.Duration, env []string, args ...string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.Env = s.Dir, append(plainEnv(), env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && ctx.Err() == nil && !errors.As(err, &exit) {
		return 0, "", err
	}
	s.search("the output of "+args[0], out.String())
	return cmd.ProcessState.ExitCode(), out.String(), nil
}

// file keeps a secret in a file, as an orchestrator does.
func (s *secrets) file(name, content string) (string, error) {
	path := filepath.Join(s.Dir, name)
	return path, os.WriteFile(path, []byte(content+"\n"), 0o600)
}

// databaseURL is a DSN in URL form for user app with a canary.
func (s *secrets) databaseURL(of, hostAndPath string) string {
	return s.Store + "://" + url.UserPassword("app", s.canary(of)).String() + "@" + hostAndPath
}

// brokerURL is the same for the broker.
func (s *secrets) brokerURL(of, hostAndPath string) string {
	return "amqp://" + url.UserPassword("app", s.canary(of)).String() + "@" + hostAndPath
}

// library searches the errors of the library itself, which no command cleans.
func (s *secrets) library(ctx context.Context) error {
	failed := 0
	note := func(where string, err error) {
		if err != nil {
			failed++
			s.search("an error of "+where, fmt.Sprintf("%v %+v %#v %q", err, err, err, err))
		}
	}
	for _, raw := range []string{
		"amqp://app:%s@127.0.0.1:port/", "amqp://app:%s%%zz@127.0.0.1/", "amqx://app:%s@127.0.0.1/", "app:%s@127.0.0.1",
		"amqp://app:%s@/\x01", "amqp://app:%s@127.0.0.1/a/b/c%%",
	} {
		_, err := confirms.ParseURL(fmt.Sprintf(raw, s.canary("a broker URL")))
		note("confirms.ParseURL", err)
	}
	driver := mysql.Config{
		User: "app", Passwd: s.canary("a driver's DSN"), Net: "tcp", Addr: "127.0.0.1:1", DBName: "x",
	}
	for _, dsn := range []string{
		s.databaseURL("a DSN", "127.0.0.1:1/shop"), s.databaseURL("a DSN", "127.0.0.1:port/shop"),
		s.databaseURL("a DSN", "127.0.0.1:1/shop?timeout=x&sslmode=x"), s.databaseURL("a DSN", "127.0.0.1:1/%zz"),
		driver.FormatDSN(), "app:" + s.canary("a broken DSN") + "@tcp(127.0.0.1/shop",
		"host=127.0.0.1 port=1 user=app password=" + s.canary("a DSN of words") + " dbname=x",
		"postgres://app:" + s.canary("a broken DSN") + "%zz@127.0.0.1/shop",
		"mysql://app:" + s.canary("a broken DSN") + "%zz@127.0.0.1/shop",
		"oracle://app:" + s.canary("a broken DSN") + "@h/x",
	} {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		store, err := anystore.Open(ctx, dsn, gormstore.Options{})
		cancel()
		note("gormstore.Open", err)
		if err == nil {
			return errors.Join(errors.New("a DSN that leads nowhere was opened"), store.Close())
		}
	}
	s.Breaches.AtLeast("errors of the library", int64(failed), 14)
	s.figs["library_errors"] = failed
	return nil
}

// stored searches what the product wrote into the tables.
func (s *secrets) stored(ctx context.Context) error {
	texts, err := s.db.strings(ctx, "SELECT CONCAT(last_code, ' ', last_error, ' ', claimed_by) FROM trans_message")
	if err != nil {
		return err
	}
	events, err := s.db.strings(ctx, "SELECT CONCAT(code, ' ', text, ' ', instance, ' ', actor) "+
		"FROM trans_message_event")
	if err != nil {
		return err
	}
	s.Breaches.AtLeast("rows of history", int64(len(events)), 1)
	for _, text := range append(texts, events...) {
		s.search("the tables", text)
	}
	return nil
}

// redisURL is the same for Redis.
func (s *secrets) redisURL(of, hostAndPath string) string {
	return "redis://" + url.UserPassword("app", s.canary(of)).String() + "@" + hostAndPath
}

// shoutrrrURL is a service that is not there, with a token.
func (s *secrets) shoutrrrURL() string {
	return "ntfy://" + url.UserPassword("app", s.canary("a chat service")).String() + "@127.0.0.1:1/topic"
}
