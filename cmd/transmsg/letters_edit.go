package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) letterEditCommand() *cobra.Command {
	var o editOptions
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Correct a dead letter: its body, properties or headers",
		Long: "Changes what the flags name of one dead letter, and keeps beside it what the broker delivered. The\n" +
			"message id stays. The letter waits again, also one that was sent back or discarded: replay it.\n" +
			"Shows before and after unless --yes is given; of bodies, size and SHA-256. The command shown does\n" +
			"nothing when somebody else edits the letter first. --reset-properties begins without properties\n" +
			"and headers, where some cannot be sent.",
		Example: "  transmsg dead-letters edit 01890000-0000-7000-8000-000000000001 --body-file fixed.json --yes\n" +
			"  transmsg dead-letters edit 01890000-0000-7000-8000-000000000001 --header tenant=b",
		Args: func(_ *cobra.Command, args []string) error { return letterID(args) },
	}
	o.bindCommon(cmd.Flags())
	o.message.bindReceived(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error { return a.editLetter(ctx, cmd, &o, args[0]) })
	return cmd
}

func (a *app) editLetter(ctx context.Context, cmd *cobra.Command, o *editOptions, id string) error {
	actor, err := o.actor.name()
	if err != nil {
		return err
	}
	if !o.changes() {
		return usagef("nothing to change: give --body-file, --header or another field")
	}
	if err := o.message.parse(a); err != nil {
		return err
	}
	s, err := a.openStore(ctx, &o.store, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	before, _, _, err := storedLetter(ctx, s, id)
	if err != nil {
		return err
	}
	e, err := o.letterEdit(&before)
	if err != nil {
		return err
	}
	e.Actor, e.Reason, e.Epoch = actor, o.reason, &before.Epoch
	if o.message.given("epoch") && o.epoch != before.Epoch {
		return changedLetter(id, fmt.Errorf("--epoch %d: %w (epoch %d)", o.epoch, model.ErrChanged, before.Epoch))
	}
	after := before
	if err := e.Apply(&after); err != nil { // the store does it again, under its lock
		return err
	}
	if o.yes {
		return a.applyLetterEdit(ctx, s, &before, e)
	}
	command := ""
	if o.message.bodyFile != "-" { // stdin has been read
		command = a.repeated(cmd, o.confirmation(before.Epoch)...)
	}
	return a.showEdit(edited{
		deadLetter, before.ID, string(before.Status), before.Epoch, differences(letterLines(&before),
			letterLines(&after)),
	}, command)
}

// letterEdit turns the flags into changes of this letter.
func (o *editOptions) letterEdit(l *model.DeadLetter) (e model.LetterEdit, err error) {
	v := l.Properties.View()
	if o.reset {
		v.Properties, v.Headers = model.Properties{}, nil
	}
	f := &o.message
	if f.given("body", "body-file") {
		e.Body = &f.m.Body
	}
	if o.reset || f.given(propertyFlagNames...) {
		f.overlay(&v.Properties)
		e.Properties = &v.Properties
	}
	if o.reset || f.given(headerFlagNames...) {
		headers, err := o.headers(v.Headers)
		if err != nil {
			return e, err
		}
		e.Headers = &headers
	}
	return e, nil
}

func (a *app) applyLetterEdit(
	ctx context.Context, s *gormstore.Store, before *model.DeadLetter, e model.LetterEdit,
) error {
	if err := s.EditLetter(ctx, before.ID, e); err != nil {
		if errors.Is(err, model.ErrChanged) {
			err = changedLetter(before.ID, err)
		}
		return err
	}
	if a.jsonOut {
		return printJSON(a.stdout, jsonLetterAct{
			"edit", true, 1, false, e.Actor, e.Reason,
			[]jsonReach{},
			[]jsonRefusal{},
		})
	}
	fmt.Fprintf(a.stdout, "1 dead letter edited as %s\nIt waits. To send it: transmsg dead-letters replay %s --yes\n",
		e.Actor, before.ID)
	return nil
}

// changedLetter adds what to do when somebody else was first.
func changedLetter(id string, err error) error {
	return fmt.Errorf("%w; nothing was edited\nNext: look at it, and edit it again where needed: "+
		"transmsg dead-letters show %s", err, id)
}

// letterLines are the fields of a letter that edit can change, as names and texts.
func letterLines(l *model.DeadLetter) [][2]string {
	v := l.Properties.View()
	lines := append([][2]string{bodyLine(l.Payload)},
		propertyLines(&model.Message{Properties: v.Properties, Headers: v.Headers})...)
	if l.Unreplayable != "" {
		lines = append(lines, [2]string{"cannot be replayed", l.Unreplayable})
	}
	return lines
}
