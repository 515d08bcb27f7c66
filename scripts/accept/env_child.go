package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// childArg as the first argument makes this program a process that a check
// kills: accept -child ROLE JSON. It is not for people.
const childArg = "-child"

// children are the roles, each with its own JSON.
func children() map[string]func(context.Context, []byte) error {
	return map[string]func(context.Context, []byte) error{
		"publish":    publishChild,
		"commit":     commitChild,
		"steady":     steadyChild,
		"consume":    consumerChild,
		"one-effect": consumeChild,
	}
}

// childMain runs a role until it ends or, as it should be, is killed.
func childMain(args []string, stderr io.Writer) int {
	if len(args) != 2 || children()[args[0]] == nil {
		fmt.Fprintf(stderr, "accept: %s is for the program itself\n", childArg)
		return exitUsage
	}
	if err := children()[args[0]](context.Background(), []byte(args[1])); err != nil {
		fmt.Fprintf(stderr, "accept: child %s: %v\n", args[0], err)
		return exitBreach
	}
	return exitPass
}

// child is a process of ours in a role.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser // what it is told
	out io.ReadCloser  // what it says; the reader closes nothing
}

func startChild(role string, order any) (*child, error) {
	data, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, childArg, role, string(data))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start child %s: %w", role, err)
	}
	return &child{cmd: cmd, in: in, out: out}, nil
}

// kill sends SIGKILL. It is an error when the child had ended by itself.
func (c *child) kill() error { return c.cmd.Process.Kill() }

// wait reaps a killed child after its output was read to the end.
func (c *child) wait() error {
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the child ended by itself: %v", c.cmd.ProcessState)
}
