package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// editOptions are the flags of edit.
type editOptions struct {
	store  storeOptions
	actor  actorFlags
	reason string
	yes    bool
	epoch  int
	reset  bool
	remove []string
	// message holds what the flags set; which of them were given, its FlagSet knows.
	message messageFlags
}

// bindCommon adds the flags that do not say what is changed.
func (o *editOptions) bindCommon(fs *pflag.FlagSet) {
	o.store.bind(fs, "required")
	o.actor.bind(fs)
	fs.StringVar(&o.reason, "reason", "", "why, kept in the history")
	fs.BoolVar(&o.yes, "yes", false, "do it, instead of showing before and after")
	fs.BoolVar(&o.reset, "reset-properties", false,
		"begin without properties and headers; needed where the stored ones cannot be decoded")
	fs.IntVar(&o.epoch, "epoch", 0,
		"edit only what still has this `number` of edits and replays, as the shown command has it (default as it is)")
	fs.StringArrayVar(&o.remove, "remove-header", nil, "header to remove by `name`; repeat for more")
}

func (a *app) editCommand() *cobra.Command {
	var o editOptions
	cmd := &cobra.Command{
		Use:   "edit ID",
		Short: "Correct a stored message: where it goes, its body, properties or headers",
		Long: "Changes what the flags name of one message that is DEAD, or READY and not being sent, after the same\n" +
			"checks as a publish. The status stays: replay a corrected DEAD message. Shows before and after unless\n" +
			"--yes is given; of bodies, size and SHA-256. The command shown does nothing when somebody else edits\n" +
			"or replays the message first.",
		Example: "  transmsg messages edit 01890000-0000-7000-8000-000000000001 --exchange orders.v2 --yes\n" +
			"  transmsg messages edit 01890000-0000-7000-8000-000000000001 --body-file fixed.json --header retry=1",
		Args: func(_ *cobra.Command, args []string) error { return messageID(args) },
	}
	o.bindCommon(cmd.Flags())
	o.message.bindContent(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error { return a.edit(ctx, cmd, &o, args[0]) })
	return cmd
}

func (a *app) edit(ctx context.Context, cmd *cobra.Command, o *editOptions, id string) error {
	actor, err := o.actor.name()
	if err != nil {
		return err
	}
	if !o.changes() {
		return usagef("nothing to change: give --exchange, --routing-key, --body-file, --header or another field")
	}
	if err := o.message.parse(a); err != nil {
		return err
	}
	s, err := a.openStore(ctx, &o.store, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	before, _, err := stored(ctx, s, id)
	if err != nil {
		return err
	}
	e, err := o.edit(&before)
	if err != nil {
		return err
	}
	e.Actor, e.Reason, e.Epoch = actor, o.reason, &before.Epoch
	if o.message.given("epoch") && o.epoch != before.Epoch {
		return changed(&before, fmt.Errorf("--epoch %d: %w (epoch %d)", o.epoch, model.ErrChanged, before.Epoch))
	}
	e.Limits.MaxBody = min(compensator.DefaultMaxBody, s.MaxBody())
	after := before
	if err := e.Apply(&after); err != nil { // the store does it again, under its lock
		return err
	}
	if o.yes {
		return a.applyEdit(ctx, s, &before, e)
	}
	command := ""
	if o.message.bodyFile != "-" { // stdin has been read
		command = a.repeated(cmd, o.confirmation(before.Epoch)...)
	}
	return a.showEdit(edited{
		message, before.ID, string(before.Status), before.Epoch, differences(contentLines(&before),
			contentLines(&after)),
	}, command)
}

func (a *app) applyEdit(ctx context.Context, s *gormstore.Store, before *model.TransMessage, e model.Edit) error {
	if err := s.Edit(ctx, before.ID, e); err != nil {
		switch {
		case errors.Is(err, model.ErrChanged):
			err = changed(before, err)
		case errors.Is(err, model.ErrLeased):
			err = fmt.Errorf("%w\nNext: wait for its outcome and look again: transmsg messages show %s", err, before.ID)
		}
		return err
	}
	if a.jsonOut {
		return printJSON(a.stdout, jsonAct{"edit", true, 1, false, e.Actor, e.Reason, []jsonReach{}})
	}
	fmt.Fprintf(a.stdout, "1 message edited as %s\n", e.Actor)
	if before.Status == model.Dead {
		fmt.Fprintf(a.stdout, "It is DEAD. To send it: transmsg messages replay %s --yes\n", before.ID)
	}
	return nil
}

// changed adds what to do when somebody else was first.
func changed(row *model.TransMessage, err error) error {
	return fmt.Errorf("%w; nothing was edited\nNext: look at it, and edit it again where needed: "+
		"transmsg messages show %s", err, row.ID)
}

// confirmation is what makes the command that was given the one that does it, to the row
// that was shown alone.
func (o *editOptions) confirmation(epoch int) []string {
	if o.message.given("epoch") {
		return []string{"--yes"}
	}
	return []string{"--epoch", strconv.Itoa(epoch), "--yes"}
}

// contentFlags of edit by what they change; header and body have rules of their own.
var (
	propertyFlagNames = []string{
		"content-type", "content-encoding", "correlation-id", "reply-to", "expiration", "type", "app-id", "priority",
		"timestamp",
	}
	headerFlagNames = []string{"header", "remove-header"}
	routeFlagNames  = []string{"exchange", "routing-key", "key", "body", "body-file", "allow-unroutable"}
)

func (o *editOptions) changes() bool {
	return o.reset || o.message.given(routeFlagNames...) || o.message.given(propertyFlagNames...) ||
		o.message.given(headerFlagNames...)
}

// edit turns the flags into changes of this row.
func (o *editOptions) edit(row *model.TransMessage) (model.Edit, error) {
	var e model.Edit
	now, err := row.Message()
	switch {
	case o.reset:
		now.Properties, now.Headers = model.Properties{}, nil
	case errors.Is(err, model.ErrCorrupt):
		return e, fmt.Errorf("%w\nNext: add --reset-properties, and the properties and headers it needs", err)
	case err != nil:
		return e, err
	}
	f := &o.message
	for _, c := range [...]struct {
		flag string
		dst  **string
		src  *string
	}{
		{"exchange", &e.Exchange, &f.m.Exchange},
		{"routing-key", &e.RoutingKey, &f.m.RoutingKey},
		{"key", &e.Key, &f.m.Key},
	} {
		if f.given(c.flag) {
			*c.dst = c.src
		}
	}
	if f.given("body", "body-file") {
		e.Body = &f.m.Body
	}
	if f.given("allow-unroutable") {
		e.AllowUnroutable = &f.m.AllowUnroutable
	}
	if o.reset || f.given(propertyFlagNames...) {
		f.overlay(&now.Properties)
		e.Properties = &now.Properties
	}
	if o.reset || f.given(headerFlagNames...) {
		headers, err := o.headers(now.Headers)
		if err != nil {
			return e, err
		}
		e.Headers = &headers
	}
	return e, nil
}

// headers are those of the row with the flags' changes.
func (o *editOptions) headers(now map[string]any) (map[string]any, error) {
	headers := maps.Clone(now)
	if headers == nil {
		headers = map[string]any{}
	}
	for _, name := range o.remove {
		if _, ok := headers[name]; !ok {
			return nil, usagef("--remove-header %q: the message has no such header", name)
		}
		delete(headers, name)
	}
	maps.Copy(headers, o.message.m.Headers)
	return headers, nil
}

// jsonEdit is the documented result of edit without --yes. A field that is not there has
// an empty text.
type jsonEdit struct {
	Verb    string       `json:"verb"`
	Applied bool         `json:"applied"`
	ID      string       `json:"id"`
	Changes []jsonChange `json:"changes"`
	Command string       `json:"command"`
}

type jsonChange struct {
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// edited is what an edit would change of one row.
type edited struct {
	noun, id, status string
	epoch            int
	changes          []jsonChange
}

// showEdit shows the fields that differ.
func (a *app) showEdit(e edited, command string) error {
	if a.jsonOut {
		return printJSON(a.stdout, jsonEdit{"edit", false, e.id, e.changes, command})
	}
	if len(e.changes) == 0 {
		fmt.Fprintf(a.stdout, "nothing to change: the %s is so already\n", e.noun)
		return nil
	}
	fmt.Fprintf(a.stdout, "would edit %s %s (%s)\n\n", e.noun, e.id, e.status)
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIELD\tBEFORE\tAFTER")
	for _, c := range e.changes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", printable(c.Field), printable(c.Before), printable(c.After))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write changes: %w", err)
	}
	if command == "" {
		command = fmt.Sprintf("the same command with --epoch %d --yes", e.epoch)
	}
	fmt.Fprintf(a.stdout, "\nNothing was changed. To edit:\n  %s\n", command)
	return nil
}

// differences lists the fields that differ, in the order and form of show.
func differences(before, after [][2]string) []jsonChange {
	old, now := map[string]string{}, map[string]string{}
	for _, l := range before {
		old[l[0]] = l[1]
	}
	for _, l := range after {
		now[l[0]] = l[1]
	}
	changes := []jsonChange{}
	seen := map[string]bool{}
	for _, l := range append(before, after...) {
		name := l[0]
		if !seen[name] && old[name] != now[name] {
			changes = append(changes, jsonChange{name, old[name], now[name]})
		}
		seen[name] = true
	}
	return changes
}

// contentLines are the fields of a row that edit can change, as names and texts.
func contentLines(row *model.TransMessage) [][2]string {
	lines := [][2]string{
		{"exchange", fmt.Sprintf("%q", row.Exchange)},
		{"routing key", fmt.Sprintf("%q", row.RoutingKey)},
		{"business key", fmt.Sprintf("%q", row.MessageKey)},
		bodyLine(row.Payload),
	}
	m, err := row.Message()
	if err != nil {
		return append(lines, [2]string{"properties", err.Error()})
	}
	return append(lines, propertyLines(&m)...)
}

// bodyLine tells a body by size and checksum.
func bodyLine(body []byte) [2]string {
	return [2]string{"body", fmt.Sprintf("%d bytes, sha256 %x", len(body), sha256.Sum256(body))}
}
