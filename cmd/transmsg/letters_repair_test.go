package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// An edit shows before and after, keeps the original, makes a letter wait again, and is for what was shown alone.
func TestDeadLettersAreEdited(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "q", 1)
	id := ids[0]
	letters(t, 0, store, "replay", id, "--yes")
	_, errs := letters(t, exitUsage, store, "edit", id, "--remove-header", "gone")
	contains(t, "no such header", errs, `--remove-header "gone"`)
	out, _ := letters(t, 0, store, "edit", id, "--body", "fixed", "--header", "tenant=b")
	contains(t, "preview", out, "would edit dead letter "+id+" (REPLAYED)", `header "tenant"`, "5 bytes, sha256",
		"--epoch 1 --yes")
	out, _ = letters(t, 0, store, "edit", id, "--body", "fixed", "--header", "tenant=b", "--epoch", "1", "--yes")
	contains(t, "edit", out, "1 dead letter edited", "dead-letters replay "+id)
	_, errs = letters(t, exitFailed, store, "edit", id, "--body", "other", "--epoch", "1", "--yes")
	contains(t, "an older state", errs, "nothing was edited", "dead-letters show "+id)
	for what, want := range map[string]string{"": "fixed", "--original": `{"n":0}`} {
		args := []string{"show", id, "--body"}
		if what != "" {
			args = append(args, what)
		}
		if out, _ = letters(t, 0, store, args...); out != want {
			t.Errorf("show --body %s: %q, want %q", what, out, want)
		}
	}
	out, _ = letters(t, 0, store, "replay", id, "--yes")
	contains(t, "replay of the corrected one", out, "1 dead letter replayed")
	if n := listed(t, store); n != 2 {
		t.Errorf("%d messages, want one for each replay", n)
	}
	_, errs = letters(t, exitUsage, store, "edit", id)
	contains(t, "no change", errs, "nothing to change")
	_, errs = letters(t, exitFailed, store, "edit", id, "--header", "transmsg-replays=0", "--yes")
	contains(t, "our header", errs, "reserved")
}

// What export prints import stores again; a changed line is refused, and nothing of it is stored.
func TestDeadLettersExportAndImport(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "q\xff", 2)
	ids = append(ids, collectInto(t, store, "q", 1)...)
	letters(t, 0, store, "edit", ids[2], "--body", "fixed", "--yes")
	out, errs := letters(t, 0, store, "export", "--all", "--actor", "ann")
	if contains(t, "export", errs, "3 dead letters exported as ann"); strings.Count(out, "\n") != 3 {
		t.Fatalf("export: %s", out)
	}
	shown, _ := letters(t, 0, store, "show", ids[0])
	contains(t, "the reader", shown, "read", "ann")
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(out)
	got, _ := letters(t, 0, store, "import", file)
	contains(t, "import of what is there", got, "0 dead letters imported", "3 were there already")
	other := migrated(t)
	got, _ = letters(t, 0, other, "import", file)
	contains(t, "import", got, "3 dead letters imported")
	again, _ := letters(t, 0, other, "export", "--all")
	if again != out {
		t.Errorf("exported again:\n%s\nwant\n%s", again, out)
	}
	got, _ = letters(t, 0, other, "show", ids[2], "--body", "--original")
	contains(t, "the original", got, `{"n":0}`)
	for want, spoil := range map[string]string{
		"damaged":                             strings.Replace(out, `"cause":"permanent"`, `"cause":"permanenT"`, 1),
		"not a line of `dead-letters export`": `{"id":"x"}` + "\n",
	} {
		write(spoil)
		_, errs := letters(t, 1, migrated(t), "import", file)
		contains(t, want, errs, want, "line 1", "0 dead letters imported before")
	}
	_, errs = letters(t, 1, store, "export", "--all", "--max", "1")
	contains(t, "a part", errs, "more than 1 dead letters match")
}

// Messages and dead letters do not take each other's lines.
func TestDeadLettersAndMessagesAreNotMixed(t *testing.T) {
	t.Parallel()
	store, ids := collected(t, "q", 1)
	out, _ := letters(t, 0, store, "export", ids[0])
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runIn(t, "messages", "import", file, "--store", store)
	if contains(t, "messages import", errs, "not a line of `messages export`"); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	code, out, errs = runIn(t, "messages", "discard", ids[0], "--yes", "--store", store)
	if contains(t, "messages discard", out, "0 messages discarded"); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
	if l, _, _, err := letterStore(t, store).Letter(t.Context(), ids[0]); err != nil || l.Status != model.LetterOpen {
		t.Errorf("the letter is %s, %v", l.Status, err)
	}
}
