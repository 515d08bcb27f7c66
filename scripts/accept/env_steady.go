package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// steadyAnswer bounds the wait for one answer of a steady publisher.
const steadyAnswer = 2 * time.Minute

// steady is a publishing service in a process of its own that is told what to do and
// asked how it is. It is used from one goroutine.
type steady struct {
	*child
	answers chan string // closed when its output ends

	mu  sync.Mutex
	ids []string // acknowledged, in order
}

// steadyService starts one on the world. It ends with the world, or by finish.
func (w *world) steadyService(o steadyOrder) (*steady, error) {
	c, err := startChild("steady", o)
	if err != nil {
		return nil, err
	}
	s := &steady{child: c, answers: make(chan string, 16)}
	w.later(func() error {
		if c.cmd.ProcessState == nil {
			_ = c.kill() // a check that ended early
			for range s.answers {
			}
			_ = c.cmd.Wait()
		}
		return nil
	})
	go func() {
		defer close(s.answers)
		for lines := bufio.NewScanner(c.out); lines.Scan(); {
			id, stored := strings.CutPrefix(lines.Text(), "stored ")
			if !stored {
				s.answers <- lines.Text()
				continue
			}
			s.mu.Lock()
			s.ids = append(s.ids, id)
			s.mu.Unlock()
		}
	}()
	_, err = s.answer("up")
	return s, err
}

// stored returns the ids acknowledged so far.
func (s *steady) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.ids...)
}

// tell gives an order that has no answer.
func (s *steady) tell(order string) error {
	_, err := fmt.Fprintln(s.in, order)
	return err
}

// answer waits for the answer that begins with word and returns the rest of it.
func (s *steady) answer(word string) (string, error) {
	limit := time.NewTimer(steadyAnswer)
	defer limit.Stop()
	select {
	case line, ok := <-s.answers:
		got, rest, _ := strings.Cut(line, " ")
		if !ok || got != word {
			return "", fmt.Errorf("the publisher said %q instead of %q", line, word)
		}
		return rest, nil
	case <-limit.C:
		return "", fmt.Errorf("the publisher has not said %q within %v", word, steadyAnswer)
	}
}

func (s *steady) ask(order string) (string, error) {
	if err := s.tell(order); err != nil {
		return "", err
	}
	word, _, _ := strings.Cut(order, " ")
	if word == steadyHold {
		word = "held"
	}
	return s.answer(word)
}

// hold ends its publishing; every message has its outcome then.
func (s *steady) hold() error {
	_, err := s.ask(steadyHold)
	return err
}

// goroutines returns how many it has.
func (s *steady) goroutines() (int, error) {
	text, err := s.ask(steadyCount)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// burst publishes n messages in one call and returns how many had each outcome.
func (s *steady) burst(n int) (map[string]int, error) {
	text, err := s.ask(fmt.Sprintf("%s %d", steadyBurst, n))
	if err != nil {
		return nil, err
	}
	outcomes := map[string]int{}
	return outcomes, json.Unmarshal([]byte(text), &outcomes)
}

// finish ends it as a service ends: it drains and exits with 0.
func (s *steady) finish() error {
	if err := s.in.Close(); err != nil {
		return err
	}
	for line := range s.answers {
		return fmt.Errorf("the publisher said %q at its end", line)
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the publisher: %w", err)
	}
	return nil
}

// allArrived is for until: the mailbox has every id.
func allArrived(box *mailbox, ids []string) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		n, _ := box.arrived(ids)
		return n == len(ids), nil
	}
}
