// Package commandline has the shell lines of the command transmsg that alerts print.
package commandline

import (
	"strings"
	"unicode"

	"github.com/transmsg/transmsg/model"
)

// List is the shell line that lists the rows of an alert's group.
func List(a *model.Alert) string {
	if a.OfLetters() {
		text, _ := letters("list --status "+letterStatus(a), a)
		return text
	}
	which := "--status " + string(model.Ready)
	switch a.Kind {
	case model.AlertDead:
		which = "--status " + string(model.Dead)
	case model.AlertExhausted:
		which = "--exhausted"
	default: // they wait
	}
	text, _ := named("transmsg messages list "+which, a)
	return text
}

// Resend is the shell line that makes the rows of an alert's group READY again once
// their cause is mended, or due now where they wait, without --yes: it shows first what it would
// do. It is empty for rows that are sent without help, and where a name is not fit for a terminal:
// the line would do more.
func Resend(a *model.Alert) string {
	line := "transmsg messages replay"
	switch a.Kind {
	case model.AlertDead:
	case model.AlertLetter:
		if line, exact := letters("replay", a); exact {
			return line
		}
		return ""
	case model.AlertExhausted, model.AlertOldest, model.AlertExchange, model.AlertUnread:
		line = "transmsg messages retry"
	default:
		return ""
	}
	line, exact := named(line, a)
	if !exact {
		return ""
	}
	return line
}

// letters is the line of a verb on dead letters. PARKED ones are sent back after a look at each.
func letters(verb string, a *model.Alert) (string, bool) {
	return flagged("transmsg dead-letters "+verb, []flag{
		{"service", a.Service}, {"queue", a.RoutingKey}, {"cause", string(a.Code)},
	})
}

func letterStatus(a *model.Alert) string {
	if a.Kind == model.AlertParked {
		return string(model.LetterParked)
	}
	return string(model.LetterOpen)
}

// named adds the group's names, and reports whether it added all of them.
func named(line string, a *model.Alert) (string, bool) {
	return flagged(line, []flag{
		{"service", a.Service}, {"exchange", a.Exchange}, {"routing-key", a.RoutingKey}, {"code", string(a.Code)},
	})
}

type flag struct{ name, value string }

// flagged adds the flags that have a value, and reports whether it added all of them.
func flagged(line string, flags []flag) (string, bool) {
	exact := true
	for _, f := range flags {
		switch {
		case f.value == "":
		case strings.ContainsFunc(f.value, unpasteable):
			exact = false // No terminal takes it: the line lists more rows than the group.
		default:
			line += " --" + f.name + " " + Quoted(f.value)
		}
	}
	return line, exact
}

// Quoted makes s one word of a POSIX shell: names come out of the table, and people
// copy commands.
func Quoted(s string) string {
	safe := func(r rune) bool {
		return r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/:@", r))
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// unpasteable tells what no terminal takes, and what stands for a byte that no text shows.
func unpasteable(c rune) bool { return unicode.IsControl(c) || c == unicode.ReplacementChar }
