package model_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func TestC20_DecodeRefusesWhatItWouldLose(t *testing.T) {
	t.Parallel()
	header := func(value string) string { return `{"v":1,"headers":{"h":` + value + `}}` }
	for name, in := range map[string]string{
		"empty": "", "not JSON": "x", "null": "null", "array": "[]", "string": `"v"`, "truncated": `{"v":1,"headers":{`,
		"no version": `{}`, "version zero": `{"v":0}`, "version negative": `{"v":-1}`, "version null": `{"v":null}`,
		"version text": `{"v":"1"}`, "version fraction": `{"v":1.5}`, "version twice": `{"v":1,"v":2}`,
		"trailing object": `{"v":1}{}`, "trailing garbage": `{"v":1} x`, "trailing bracket": `{"v":1}}`,
		"unknown field": `{"v":1,"later":1}`, "user id": `{"v":1,"user_id":"guest"}`,
		"null member": `{"v":1,"type":null}`, "null headers": `{"v":1,"headers":null}`,
		"null timestamp": `{"v":1,"timestamp":null}`, "null flag": `{"v":1,"allow_unroutable":null}`,
		"number for text": `{"v":1,"type":5}`, "priority 256": `{"v":1,"priority":256}`,
		"priority -1": `{"v":1,"priority":-1}`, "timestamp text": `{"v":1,"timestamp":"2026-01-01"}`,
		"timestamp fraction": `{"v":1,"timestamp":1.5}`, "headers array": `{"v":1,"headers":[]}`,
		"not UTF-8 in a property": "{\"v\":1,\"type\":\"a\xffb\"}", "not UTF-8 in a header": header("[\"S\",\"\xc3\"]"),
		"no tag": header(`"text"`), "tag alone": header(`["S"]`), "three elements": header(`["S","a","b"]`),
		"header null": header(`null`), "unknown tag": header(`["L",1]`), "tag number": header(`[1,1]`),
		"tag null": header(`[null,1]`), "lower tag": header(`["a",[]]`), "header object": header(`{"S":"a"}`),
		"V with value": header(`["V",0]`), "t number": header(`["t",1]`), "t null": header(`["t",null]`),
		"b above": header(`["b",128]`), "B above": header(`["B",256]`), "B negative": header(`["B",-1]`),
		"s above": header(`["s",32768]`), "u above": header(`["u",65536]`), "I above": header(`["I",2147483648]`),
		"i negative": header(`["i",-1]`), "l above": header(`["l",9223372036854775808]`), "l text": header(`["l","1"]`),
		"l float": header(`["l",1.0]`), "l exponent": header(`["l",1e3]`), "l null": header(`["l",null]`),
		"f above": header(`["f",1e39]`), "d above": header(`["d",1e309]`), "d text": header(`["d","1.5"]`),
		"d NaN": header(`["d","NaN"]`), "d infinity": header(`["d",Infinity]`),
		"d null": header(`["d",null]`), "d bool": header(`["d",true]`),
		"T fraction": header(`["T",1.5]`), "T null": header(`["T",null]`), "S null": header(`["S",null]`),
		"S number": header(`["S",1]`), "x not base64": header(`["x","!"]`), "x null": header(`["x",null]`),
		"x bytes": header(`["x",[1,2]]`), "D short": header(`["D",[1]]`), "D scale": header(`["D",[256,1]]`),
		"D value": header(`["D",[1,2147483648]]`), "D null": header(`["D",[null,null]]`), "D text": header(`["D","1"]`),
		"A null": header(`["A",null]`), "A object": header(`["A",{}]`), "A element": header(`["A",["a"]]`),
		"F null": header(`["F",null]`), "F array": header(`["F",[]]`), "F value": header(`["F",{"a":1}]`),
		"name too long": `{"v":1,"headers":{"` + strings.Repeat("n", 256) + `":["V",null]}}`,
		"name with NUL": `{"v":1,"headers":{"a\u0000":["V",null]}}`,
		"nested too deep": header(strings.Repeat(`["A",[`, model.MaxDepth) + `["V",null]` +
			strings.Repeat(`]]`, model.MaxDepth)),
		"array too long": header(`["A",[["V",null]` + strings.Repeat(`,["V",null]`, model.MaxElements) + `]]`),
		"table too long": header(`["F",{` + manyMembers(model.MaxElements+1) + `}]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := model.Message{RoutingKey: "kept", Headers: map[string]any{"kept": true}}
			err := model.DecodeProperties([]byte(in), &m)
			if !errors.Is(err, model.ErrCorrupt) || errors.Is(err, model.ErrNewerCodec) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			if m.Headers["kept"] != true || m.RoutingKey != "kept" {
				t.Errorf("the message was touched: %+v", m)
			}
			row := model.TransMessage{Properties: []byte(in)}
			if _, err := row.Message(); !errors.Is(err, model.ErrCorrupt) {
				t.Errorf("row: got %v, want ErrCorrupt", err)
			}
		})
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":["V",null]`, i)
	}
	return b.String()
}

func TestC20_DecodeReportsANewerVersion(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"v":3}`, `{"v":3,"type":{"anything":[1]}}`, `{"headers":[],"v":9000}`, "  {\n\"v\" : 3 }",
	} {
		var m model.Message
		err := model.DecodeProperties([]byte(in), &m)
		if !errors.Is(err, model.ErrNewerCodec) || errors.Is(err, model.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrNewerCodec", in, err)
		}
	}
}

// A row that an operator wrote in a SQL shell.
func TestDecodeAcceptsHandWrittenRows(t *testing.T) {
	t.Parallel()
	in := "\n\t{ \"headers\" : {\r\n \"n\" : [ \"l\" , 5 ] , \"x\":[\"f\", -0.5 ], \"big\":[\"d\" , 1E5 ],\n" +
		` "null" : [ "V" , null ], "list":[ "A" , [ [ "S" , "\u00e9\ud83d\ude00" ] , ["x", "AAE="] ] ],` +
		` "d": [ "D" , [ 2 , 5 ] ] } ,` +
		` "timestamp" : 10, "type":"null",  "v" :  1 }` + "\n  "
	var got model.Message
	if err := model.DecodeProperties([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"n": int64(5), "x": float32(-0.5), "big": 1e5, "null": nil,
		"list": []any{"é😀", []byte{0, 1}}, "d": model.Decimal{Scale: 2, Value: 5},
	}
	if diff := diffHeaders(want, got.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got.Properties.Type != "null" || !got.Properties.Timestamp.Equal(time.Unix(10, 0)) {
		t.Errorf("got %+v", got.Properties)
	}
}

func TestDecodeOfEmptyHeadersIsNoHeaders(t *testing.T) {
	t.Parallel()
	var got model.Message
	if err := model.DecodeProperties([]byte(`{"v":1,"headers":{}}`), &got); err != nil || got.Headers != nil {
		t.Errorf("got %v, %v", got.Headers, err)
	}
}
