package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	yamlv3 "go.yaml.in/yaml/v3"
)

const envPrefix = "TRANSMSG_"

// settingMark is the annotation of a flag that is a setting: it can also come from the
// environment and the file. A flag without it describes this one call (such as
// --routing-key).
const settingMark = "transmsg-setting"

// settings marks every flag of fs as a setting.
func settings(fs *pflag.FlagSet) *pflag.FlagSet {
	fs.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{settingMark: nil}
	})
	return fs
}

// loadSettings gives each setting of cmd that is not on the command line its value from
// the environment or the file, through the flag's own parser. A name that no verb knows is
// refused: a misspelt setting must not become a default.
func (a *app) loadSettings(cmd *cobra.Command) error {
	cmd.Flags().Visit(func(f *pflag.Flag) { a.given = append(a.given, flagWords(f)...) })
	if err := a.swallowed(cmd); err != nil {
		return err
	}
	known := knownSettings(cmd.Root())
	fromEnv, err := a.loadEnv(known)
	if err != nil {
		return err
	}
	if path, ok := fromEnv["config"]; ok && a.configFile == "" {
		a.configFile = path
	}
	fromFile, err := a.loadFile(known)
	if err != nil {
		return err
	}
	var first error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[settingMark]; !ok || f.Changed || first != nil {
			return
		}
		value, source := fromEnv[f.Name], "environment variable "+envName(f.Name)
		inFile, filed := fromFile[f.Name]
		switch _, ok := fromEnv[f.Name]; {
		case !ok && !filed:
			return
		case !ok:
			value, source = inFile, "key "+f.Name+" of "+a.configFile
		case filed && inFile != value: // somebody reads the file and wonders
			a.overridden = append(a.overridden, f.Name)
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			first = usagef("%s: %s", source, flagCause(err))
		}
	})
	return first
}

// swallowed refuses a flag whose value is the next flag: its own value was forgotten. Who means
// the text writes --flag=--text.
func (a *app) swallowed(cmd *cobra.Command) error {
	var first error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, value := range flagValues(f) {
			name, _, _ := strings.Cut(strings.TrimPrefix(value, "--"), "=")
			meant := slices.Contains(a.args, "--"+f.Name+"="+value)
			if first == nil && strings.HasPrefix(value, "--") && cmd.Flags().Lookup(name) != nil && !meant {
				first = usagef("--%s needs a value, and the flag --%s follows; for that text as the value: --%s=--%s",
					f.Name, name, f.Name, name)
			}
		}
	})
	return first
}

// flagValues are the values of a flag, several for a list.
func flagValues(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// flagWords are a flag of the command line as it can be given again.
func flagWords(f *pflag.Flag) []string {
	var words []string
	for _, v := range flagValues(f) {
		switch {
		case f.Value.Type() == "bool" && v == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "bool" || strings.HasPrefix(v, "-"):
			words = append(words, "--"+f.Name+"="+v)
		default:
			words = append(words, "--"+f.Name, v)
		}
	}
	return words
}

// knownSettings are the settings of all verbs: one file and one environment may serve
// several verbs.
func knownSettings(root *cobra.Command) map[string]*pflag.Flag {
	known := map[string]*pflag.Flag{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[settingMark]; ok {
				known[f.Name] = f
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return known
}

// loadEnv returns the TRANSMSG_ variables by setting.
func (a *app) loadEnv(known map[string]*pflag.Flag) (map[string]string, error) {
	k := koanf.New("\x00") // no nesting: a variable is one setting
	err := k.Load(env.Provider("\x00", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return a.environ },
		TransformFunc: func(key, value string) (string, any) {
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "_", "-"), value
		},
	}), nil)
	if err != nil {
		return nil, usagef("read environment: %w", err)
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(k.All())) {
		if strings.HasPrefix(name, "test-") {
			continue // where the project's own tests find their servers
		}
		if known[name] == nil && name != "config" {
			return nil, usagef("unknown environment variable %s%s; unset it",
				envName(name), didYouMean(name, slices.Collect(maps.Keys(known)), "", envName))
		}
		out[name] = k.String(name)
	}
	return out, nil
}

// loadFile returns the keys of the --config file by setting.
func (a *app) loadFile(known map[string]*pflag.Flag) (map[string]string, error) {
	if a.configFile == "" {
		return nil, nil
	}
	k := koanf.New(".")
	if err := k.Load(file.Provider(a.configFile), oneDocument{yaml.Parser()}); err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			return nil, usagef("read --config file %s: %w", a.configFile, pathErr.Err)
		}
		return nil, usagef("read --config file %s: %w", a.configFile, err)
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(k.All())) {
		if known[name] == nil {
			return nil, usagef("unknown key %q in %s%s",
				name, a.configFile, didYouMean(name, slices.Collect(maps.Keys(known)), ""))
		}
		text, reason := fileValue(known[name].Value.Type(), k.Get(name))
		if reason != "" {
			return nil, usagef("key %s of %s %s", name, a.configFile, reason)
		}
		out[name] = text
	}
	return out, nil
}

// oneDocument is the parser of YAML that refuses what it would leave out in silence: all
// documents but the first.
type oneDocument struct{ *yaml.YAML }

// Unmarshal implements koanf.Parser.
func (p oneDocument) Unmarshal(text []byte) (map[string]any, error) {
	out, err := p.YAML.Unmarshal(text)
	if err != nil {
		return nil, err
	}
	documents := yamlv3.NewDecoder(bytes.NewReader(text))
	var node yamlv3.Node
	if err := documents.Decode(&node); err == nil && !errors.Is(documents.Decode(&node), io.EOF) {
		return nil, errors.New("yaml: there is more than one document: join them into one")
	}
	return out, nil
}

// The types of flags whose values are text, and of the two whose values are lists of it.
const (
	stringType     = "string"
	stringListType = "stringSlice"
)

// fileValue is a value of the file as a flag of this type takes it, or why it cannot be one.
// Where text belongs only text is taken: YAML reads 0123 as 83 and 1e3 as 1000, and a
// password or a name that is another one than what stands there must not be used.
func fileValue(flagType string, value any) (text, reason string) {
	switch v := value.(type) {
	case nil:
		return "", "has no value"
	case map[string]any:
		return "", "must be a value, not a table"
	case []any:
		return fileList(flagType, v)
	case string:
		return v, ""
	}
	if flagType == stringType || flagType == stringListType || flagType == urlListType {
		return "", "must be text: put it in quotes"
	}
	return fmt.Sprint(value), ""
}

func fileList(flagType string, values []any) (text, reason string) {
	if flagType != stringListType && flagType != urlListType {
		return "", "must be one value, not a list"
	}
	items := make([]string, len(values))
	for i, v := range values {
		item, ok := v.(string)
		if !ok {
			return "", fmt.Sprintf("must be a list of text: put element %d in quotes", i+1)
		}
		if flagType == urlListType && len(strings.Fields(item)) != 1 {
			return "", fmt.Sprintf("must be a list of URLs: element %d is %d words", i+1, len(strings.Fields(item)))
		}
		items[i] = item
	}
	if len(items) == 0 {
		return "", "has no value"
	}
	if flagType == urlListType {
		return strings.Join(items, " "), ""
	}
	var line strings.Builder // as the flag reads it
	w := csv.NewWriter(&line)
	if err := errors.Join(w.Write(items), flushed(w)); err != nil {
		return "", err.Error()
	}
	return strings.TrimSuffix(line.String(), "\n"), ""
}

func flushed(w *csv.Writer) error {
	w.Flush()
	return w.Error()
}

func envName(setting string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// flagError turns pflag's errors into ours, with the nearest name.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedName() != "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		return usagef("unknown flag --%s%s; all flags: %s --help", unknown.GetSpecifiedName(),
			didYouMean(unknown.GetSpecifiedName(), names, "--"), cmd.CommandPath())
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

// flagCause is what the flag's parser said.
func flagCause(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return fmt.Errorf("invalid value %q: %w", invalid.GetValue(), invalid.Unwrap())
	}
	return err
}
