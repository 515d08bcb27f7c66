package model

import "strings"

// Words is the code for people: AMQP's numbers with the words of their cause, such as "312 no
// route". The other codes are words already.
func (c CauseCode) Words() string {
	if w := replyWords[c]; w != "" {
		return string(c) + " " + w
	}
	return string(c)
}

// Cause is the code and the text that came with it, for people. The broker's own texts begin
// with the code; where there is no text, it is [Code.Words].
func (c CauseCode) Cause(text string) string {
	switch {
	case text == "":
		return c.Words()
	case strings.HasPrefix(text, string(c)):
		return text
	}
	return string(c) + " " + text
}

var replyWords = map[CauseCode]string{
	CodeNoRoute:       "no route",
	CodeAccessRefused: "access refused",
	CodeNotFound:      "no such exchange",
	CodePrecondition:  "precondition failed",
}

// Meaning says in words what a code means and what usually mends it; empty for a code that
// this version does not know.
func (c CauseCode) Meaning() string { return meanings[c] }

var meanings = map[CauseCode]string{
	CodeNoRoute:       "no queue is bound for this routing key",
	CodeAccessRefused: "the user may not publish to this exchange",
	CodeNotFound:      "the exchange does not exist",
	CodePrecondition:  "the broker takes no such message: too large, or a property that it refuses",
	CodeNack:          "a queue refused the message, such as a full one",
	CodeClosed:        "the connection ended before the answer came",
	CodeTimeout:       "the broker did not confirm in time",
	CodeSuspect:       "the broker closed a channel or connection while this was sent",
	CodeWrite:         "the connection broke while this was sent",
	CodeNotSent:       "it was not sent yet",
	CodeCorrupt:       "the stored row cannot be decoded",
	CodeInvalid:       "the message is outside of what the protocol or the settings allow",
	CodeNewerCodec:    "a newer version stored the message: upgrade the compensators",
	CodeUnread:        "the row's content cannot be read from the database in time",
	CodeCrashLoop:     "each process that was to send this row alone ended before it had an outcome",
	CodeOther:         "the broker closes the channel or connection at this message",
}
