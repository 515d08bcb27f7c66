package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := drawAll("docs/pictures"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// drawAll writes the SVG of every text of a folder.
func drawAll(folder string) error {
	texts, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return fmt.Errorf("%s has no texts: run this from the repository's root", folder)
	}
	for _, path := range texts {
		svg, err := drawFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(path, ".txt")+".svg", svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func drawFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p.svg(), nil
}
