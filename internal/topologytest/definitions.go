package topologytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Definitions is a definitions file that is edited.
type Definitions map[string]any

// Object is one of its objects.
type Object = map[string]any

// Parse reads a definitions file.
func Parse(text []byte) (Definitions, error) {
	var d Definitions
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("parse definitions: %w", err)
	}
	return d, nil
}

// Only keeps what is in the virtual hosts of this package or of its users, out of an export of a whole broker.
func (d Definitions) Only() {
	for kind := range d {
		list, ok := d[kind].([]any)
		if !ok {
			continue
		}
		d[kind] = slices.DeleteFunc(list, func(o any) bool {
			name := o.(Object)["vhost"]
			switch kind {
			case "vhosts":
				name = o.(Object)["name"]
			case "users":
				return !strings.HasPrefix(fmt.Sprint(o.(Object)["name"]), "shop-")
			case "global_parameters":
				return true
			}
			return name != VHost && name != Elsewhere
		})
	}
}

// Text is the file.
func (d Definitions) Text() ([]byte, error) { return json.Marshal(d) }

// Each calls f with the objects of a kind, such as "queues", whose fields have these values.
func (d Definitions) Each(kind string, with Object, f func(Object)) {
	for _, o := range d.list(kind) {
		if o := o.(Object); matches(o, with) {
			f(o)
		}
	}
}

// Drop removes the objects of a kind whose fields have these values. It panics where there is none: a way to break a
// topology that breaks nothing would pass for one that is found.
func (d Definitions) Drop(kind string, with Object) {
	list := d.list(kind)
	rest := slices.DeleteFunc(slices.Clone(list), func(o any) bool { return matches(o.(Object), with) })
	if len(rest) == len(list) {
		panic(fmt.Sprintf("no %s with %v", kind, with))
	}
	d[kind] = rest
}

// Set changes fields of the objects of a kind whose fields have these values. It panics where there is none.
func (d Definitions) Set(kind string, with, fields Object) {
	found := false
	d.Each(kind, with, func(o Object) {
		found = true
		maps.Copy(o, fields)
	})
	if !found {
		panic(fmt.Sprintf("no %s with %v", kind, with))
	}
}

// Argument sets an argument of a queue or an exchange; nil removes it.
func (d Definitions) Argument(kind, name, key string, value any) {
	d.within(kind, name, "arguments", key, value)
}

// Policy sets a key of a policy; nil removes it.
func (d Definitions) Policy(name, key string, value any) {
	d.within("policies", name, "definition", key, value)
}

func (d Definitions) within(kind, name, field, key string, value any) {
	d.Each(kind, Object{"name": name}, func(o Object) {
		inner := o[field].(Object)
		if value == nil {
			delete(inner, key)
			return
		}
		inner[key] = value
	})
}

// Queue adds a durable queue and binds it to an exchange by all keys.
func (d Definitions) Queue(vhost, name, exchange string, arguments Object) {
	d.Add("queues", Object{
		"vhost": vhost, "name": name, "durable": true, "auto_delete": false, "arguments": arguments,
	})
	d.Bind(vhost, exchange, name, "queue")
}

// Exchange adds a durable fanout exchange and binds it to another one by all keys.
func (d Definitions) Exchange(vhost, name, source string) {
	d.Add("exchanges", Object{
		"vhost": vhost, "name": name, "type": "fanout", "durable": true, "auto_delete": false, "internal": false,
		"arguments": Object{},
	})
	d.Bind(vhost, source, name, "exchange")
}

// Bind adds a binding by all keys.
func (d Definitions) Bind(vhost, source, destination, kind string) {
	d.Add("bindings", Object{
		"vhost": vhost, "source": source, "destination": destination, "destination_type": kind, "routing_key": "#",
		"arguments": Object{},
	})
}

// AddPolicy adds a policy.
func (d Definitions) AddPolicy(vhost, name, pattern, applyTo string, definition Object) {
	d.Add("policies", Object{
		"vhost": vhost, "name": name, "pattern": pattern, "apply-to": applyTo, "priority": 1000,
		"definition": definition,
	})
}

// Add adds an object.
func (d Definitions) Add(kind string, o Object) { d[kind] = append(d.list(kind), o) }

func (d Definitions) list(kind string) []any {
	list, _ := d[kind].([]any)
	return list
}

func matches(o, with Object) bool {
	for k, v := range with {
		if o[k] != v {
			return false
		}
	}
	return true
}
