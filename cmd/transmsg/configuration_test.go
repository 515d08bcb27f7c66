package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const configurationPath = "../../docs/configuration.md"

const configurationHead = `# Settings

Written by ` + "`go test ./cmd/transmsg -run TestConfigurationPage -update`" + ` from the command line itself; a
test keeps it true. Every setting is a flag, an environment variable and a key of the YAML file that ` +
	"`--config`" + `
or ` + "`TRANSMSG_CONFIG`" + ` names; a flag wins over the environment, that over the file, that over the default. ` +
	`Lists are
YAML lists in the file and separated by commas elsewhere. Durations are texts such as ` +
	"`500ms`, `10s` or `1h30m`" + `.
How secrets stay out of sight is in [cli.md](cli.md).

`

// setting is one setting as verbs have it.
type setting struct {
	flag  *pflag.Flag
	verbs []string
}

// The page of all settings is what the flags say.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	want := configurationPage((&app{secrets: &redactor{}}).root())
	if *update {
		if err := os.WriteFile(configurationPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(configurationPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the flags say; run this test with -update", configurationPath)
	}
}

func configurationPage(root *cobra.Command) string {
	found := map[string]*setting{} // the same name may have another default in another verb
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[settingMark]; !ok {
				return
			}
			key := f.Name + "\x00" + f.DefValue + "\x00" + f.Usage
			if found[key] == nil {
				found[key] = &setting{flag: f}
			}
			verb := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
			if !slices.Contains(found[key].verbs, verb) {
				found[key].verbs = append(found[key].verbs, verb)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	var page strings.Builder
	page.WriteString(configurationHead)
	page.WriteString("| Flag | Environment | YAML key | Default | Meaning and bound | Verbs |\n")
	page.WriteString("|---|---|---|---|---|---|\n")
	rows := slices.SortedFunc(maps.Values(found), func(a, b *setting) int {
		return cmp.Or(cmp.Compare(a.flag.Name, b.flag.Name), cmp.Compare(a.verbs[0], b.verbs[0]))
	})
	for _, s := range rows {
		fmt.Fprintf(&page, "| `--%s` | `%s` | `%s` | %s | %s | %s |\n", s.flag.Name, envName(s.flag.Name), s.flag.Name,
			defaultText(s.flag), meaning(s.flag), verbList(root, s.verbs))
	}
	return page.String()
}

// defaultText is the default, or a dash where the meaning tells what happens without one.
func defaultText(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "[]":
		return "-"
	}
	return "`" + f.DefValue + "`"
}

func meaning(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	return strings.ReplaceAll(usage, "|", `\|`)
}

// verbList names a group instead of all its verbs.
func verbList(root *cobra.Command, verbs []string) string {
	for _, group := range root.Commands() {
		var all []string
		for _, c := range group.Commands() {
			all = append(all, group.Name()+" "+c.Name())
		}
		missing := func(v string) bool { return !slices.Contains(verbs, v) }
		if len(all) == 0 || slices.ContainsFunc(all, missing) {
			continue
		}
		verbs = slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return slices.Contains(all, v) })
		verbs = append(verbs, group.Name()+" ...")
	}
	return strings.Join(slices.Sorted(slices.Values(verbs)), ", ")
}
