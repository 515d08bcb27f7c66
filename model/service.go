package model

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxService is the length of a service's name in bytes.
const MaxService = 64

// CheckService says why a name cannot be a service's. It has 1 to 64 bytes of UTF-8
// without NUL, and no white space at either end, since MySQL holds "pay" and "pay " for the
// same, and nobody sees the difference in a listing. Publishers and compensators refuse
// such a name in their configuration.
func CheckService(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("must have 1 to %d bytes", MaxService)
	case len(name) > MaxService:
		return fmt.Errorf("has %d bytes, it must have 1 to %d bytes", len(name), MaxService)
	case !utf8.ValidString(name):
		return errors.New("must be valid UTF-8")
	case strings.ContainsRune(name, 0):
		return errors.New("must not contain NUL")
	}
	switch trimmed := strings.TrimFunc(name, unicode.IsSpace); {
	case trimmed == "":
		return errors.New("is white space only")
	case trimmed != name:
		return fmt.Errorf("begins or ends with white space (%q is meant?)", trimmed)
	}
	return nil
}
