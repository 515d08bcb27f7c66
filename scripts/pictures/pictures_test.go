package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const folder = "../../docs/pictures"

// The pictures in the documents are what their texts say.
func TestPicturesAreDrawnFromTheirTexts(t *testing.T) {
	t.Parallel()
	texts, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(texts) < 2 {
		t.Fatalf("texts: %v, %v", texts, err)
	}
	for _, path := range texts {
		want, err := drawFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(strings.TrimSuffix(path, ".txt") + ".svg")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the picture of %s is not what the text says (%v): go run ./scripts/pictures", path, err)
		}
		for d := xml.NewDecoder(bytes.NewReader(want)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
}

// A mistake in a text is named with its line.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"size 1":                "line 1: size: 1 words, want 2 or more",
		"size 1 x":              `line 1: size: "x" is not a number`,
		"\ncircle 1 2 3":        "line 2: circle: there is no such thing",
		"box a round 1 2 3 4 A": `line 1: box: there is no kind "round"`,
		"arrow a.left b.left x": `line 1: arrow: there is no box "a" above`,
		"arrow a b x":           `line 1: arrow: "a" is not NAME.SIDE`,
		"box a ours 1 2 3 4 A":  "no size",
		"box a ours 1 2 3 4 A\narrow a.top a.left x y": `line 2: arrow: "y" is not dashed`,
	} {
		if _, err := parse(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
