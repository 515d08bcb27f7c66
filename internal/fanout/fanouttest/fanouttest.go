// Package fanouttest checks that a package's observers are all called.
package fanouttest

import (
	"reflect"
	"slices"
	"testing"
)

// Check calls every function of what join makes of two listeners, and of none and an empty one, and
// reports each function that does not call both, once and in order. L is a struct of functions.
func Check[L any](t *testing.T, join func([]L) L) {
	t.Helper()
	var first, second, none L
	var heard []string
	listen(&first, "first", &heard)
	listen(&second, "second", &heard)
	all := reflect.ValueOf(join([]L{none, first, none, second}))
	nobody := reflect.ValueOf(join(nil))
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsNil() || nobody.Field(i).IsNil() {
			t.Errorf("%v: %s is not joined", all.Type(), name)
			continue
		}
		heard = nil
		call(nobody.Field(i))
		if heard != nil {
			t.Errorf("%s without listeners called %q", name, heard)
		}
		call(all.Field(i))
		if want := []string{"first " + name, "second " + name}; !slices.Equal(heard, want) {
			t.Errorf("%v: %s called %q, want %q", all.Type(), name, heard, want)
		}
	}
}

// listen sets every function of the listener to one that notes who was called.
func listen(listener any, who string, heard *[]string) {
	v := reflect.ValueOf(listener).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			*heard = append(*heard, who+" "+name)
			return nil
		}))
	}
}

// call calls f with zero values.
func call(f reflect.Value) {
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		args[i] = reflect.Zero(f.Type().In(i))
	}
	f.Call(args)
}
