package shop

import (
	"fmt"
	"os"
	"strconv"
)

// Required is an environment variable that must be there.
func Required(name string) (string, error) {
	v := os.Getenv(name)
	if v == "" {
		return "", fmt.Errorf("the environment variable %s is missing: examples/README.md has what it needs", name)
	}
	return v, nil
}

// Percent is an environment variable from 0 to 100; 0 where it is missing.
func Percent(name string) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100 {
		return 0, fmt.Errorf("the environment variable %s is %q: give a whole number from 0 to 100", name, text)
	}
	return n, nil
}
