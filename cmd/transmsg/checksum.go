package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// checksumField begins the last field of a line of an export. Its value is the
// SHA-256, in hexadecimal digits, of the line as it would be without the field: of the bytes,
// so that a later version with more fields still reads the lines of this one.
const checksumField = `,"checksum":"sha256:`

var errDamaged = errors.New("damaged: its checksum does not fit its content; nothing of it is imported. " +
	"Copy the export again; a line that was changed on purpose is taken without its field checksum")

// printExport prints a row as one line with its checksum.
func printExport(out io.Writer, row any) error {
	var line bytes.Buffer
	if err := printJSON(&line, row); err != nil {
		return err
	}
	bare := bytes.TrimSuffix(line.Bytes(), []byte("\n"))
	sum := sha256.Sum256(bare)
	if _, err := fmt.Fprintf(out, "%s%s%x\"}\n", bare[:len(bare)-1], checksumField, sum); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	return nil
}

// checked returns a line without its checksum, or errDamaged. A line that has none is of an
// earlier version, or was changed on purpose: damage cannot take the field away, since what
// is left of its name is an unknown field, which is refused.
func checked(line []byte) ([]byte, error) {
	line = bytes.TrimRight(line, " \t\r\n")
	at := bytes.LastIndex(line, []byte(checksumField))
	if at < 0 {
		return line, nil
	}
	digits, ended := bytes.CutSuffix(line[at+len(checksumField):], []byte(`"}`))
	want, err := hex.DecodeString(string(digits))
	bare := append(bytes.Clone(line[:at]), '}')
	if sum := sha256.Sum256(bare); !ended || err != nil || !bytes.Equal(want, sum[:]) {
		return nil, errDamaged
	}
	return bare, nil
}
