// Command pictures draws the pictures of the documents: each docs/pictures/NAME.txt becomes
// NAME.svg beside it. Run it from the repository's root: go run ./scripts/pictures
//
// A text has one thing a line; blank lines and lines that begin with # are skipped. Lengths
// are pixels, and texts with spaces are quoted:
//
//	size WIDTH HEIGHT
//	group X Y WIDTH HEIGHT TITLE             a frame behind what it holds
//	box NAME KIND X Y WIDTH HEIGHT LINE...   KIND: ours, yours, server, state, good, bad
//	arrow FROM.SIDE TO.SIDE LABEL [dashed]   SIDE: left, right, top, bottom, with +N or -N along it
//	text X Y LINE...                         a note
//
// An arrow goes straight where its ends allow it, else it bends half-way. A label of several
// lines has | between them.
package main
