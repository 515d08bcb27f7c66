package gormstore_test

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
)

// FuzzDSNSecrets: no error about a DSN shows its password, whatever is wrong with it.
func FuzzDSNSecrets(f *testing.F) {
	for _, s := range [][3]string{
		{"mysql://app:", "", "@h:3306/db?timeout=soon"},
		{"app:", "/#?@", "@tcp(h:3306/db"},
		{"postgres://app:", "%zz", "@h:port/db?sslmode=maybe"},
		{"postgresql://:", "x", "@/"},
		{"host=h user=app password=", "'", " port=x"},
		{"oracle://", ":", "@h"},
		{"sqlite:", "", "?x=%zz"},
		{"\xff", "\x00", "\n"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, before, password, after string) {
		if strings.HasPrefix(before, "sqlite:") || !strings.ContainsAny(before, ":=") {
			return // a path is no secret
		}
		err := anystore.Source(before + secret + password + after).Err()
		if err != nil && strings.Contains(err.Error(), secret) && !strings.Contains(before+after, secret[:3]) {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}
