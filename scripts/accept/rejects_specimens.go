package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// wireSpecimen makes properties as AMQP writes them, of everything that a broker takes and delivers: our clients encode
// half of it at most.
type wireSpecimen struct{ *rand.Rand }

// properties are the flags and fields of the i-th specimen. The first few are odd on purpose.
func (s wireSpecimen) properties(i int) []byte {
	odd := [][]byte{
		{0, 0},                                 // nothing
		{0x20, 0, 0, 0, 0, 0},                  // an empty table
		{0, 0x80, 0},                           // an empty id
		{0x10, 0, 1},                           // transient
		append([]byte{0, 0x10, 5}, "guest"...), // the user's id
		append([]byte{1, 0, 8}, "99999999"...), // an expiration
		s.headers(s.entry("a", 'V'), s.entry("a", 't')),                                 // a name twice
		s.headers(s.named("CC", 'A', s.typed('S', s.long([]byte("nobody"))))),           // further queues
		s.headers(s.named("x-death", 'S', []byte("of no shape"))),                       // x-death as a text
		s.headers(s.named("x-death", 'A', s.typed('I', []byte{0, 0, 0, 7}))),            // of numbers
		s.headers(s.named("x-death", 'A', s.typed('F', s.long(s.entry("queue", 'V'))))), // without a queue
		s.headers(s.named(string([]byte{0xff, 0}), 'S', []byte{0xfe, 0, 0xff})),         // no UTF-8, NUL
	}
	if i < len(odd) {
		return odd[i]
	}
	return s.random()
}

// random sets each of the properties or not.
func (s wireSpecimen) random() []byte {
	b := make([]byte, 2)
	flags := uint16(0)
	for bit := uint16(15); bit >= 3; bit-- {
		const user, expiration = 4, 8
		if s.IntN(2) == 0 || bit == user {
			continue
		}
		flags |= 1 << bit
		switch bit {
		case 13:
			table := s.table(0)
			b = append(b, s.long(table)...)
		case 12:
			b = append(b, byte(1+s.IntN(2)))
		case 11:
			b = append(b, byte(s.IntN(256)))
		case expiration:
			b = append(b, s.short([]byte("99999999"))...)
		case 6:
			b = append(b, s.bits(8)...)
		default:
			b = append(b, s.short(bytesOf(s.Rand, s.IntN(256)))...)
		}
	}
	binary.BigEndian.PutUint16(b, flags)
	return b
}

// table is the entries of a table, without its length.
func (s wireSpecimen) table(depth int) (b []byte) {
	for range s.IntN(12) {
		b = append(b, s.short(bytesOf(s.Rand, 1+s.IntN(60)))...)
		b = append(b, s.value(depth)...)
	}
	return b
}

// value is a value of any type, with its letter.
func (s wireSpecimen) value(depth int) []byte {
	const letters = "VtbBsuIilfdDSxTFA"
	letter := letters[s.IntN(len(letters))]
	if depth > 3 && (letter == 'F' || letter == 'A') {
		letter = 'x'
	}
	switch letter {
	case 'V':
		return []byte{'V'}
	case 't': // a broker delivers any other number as 1
		return s.typed(letter, []byte{byte(s.IntN(2))})
	case 'b', 'B':
		return s.typed(letter, s.bits(1))
	case 's', 'u':
		return s.typed(letter, s.bits(2))
	case 'I', 'i':
		return s.typed(letter, s.bits(4))
	case 'l', 'T':
		return s.typed(letter, s.bits(8))
	case 'f': // no NaN: the broker ends the connection
		return s.typed(letter, binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(s.NormFloat64()))))
	case 'd':
		return s.typed(letter, binary.BigEndian.AppendUint64(nil, math.Float64bits(s.NormFloat64()*1e300)))
	case 'D':
		return s.typed(letter, s.bits(5))
	case 'F':
		return s.typed(letter, s.long(s.table(depth+1)))
	case 'A':
		var list []byte
		for range s.IntN(5) {
			list = append(list, s.value(depth+1)...)
		}
		return s.typed(letter, s.long(list))
	}
	return s.typed(letter, s.long(bytesOf(s.Rand, s.IntN(300))))
}

func (s wireSpecimen) bits(octets int) []byte { return bytesOf(s.Rand, octets) }

func (s wireSpecimen) typed(letter byte, value []byte) []byte {
	return append([]byte{letter}, value...)
}

func (s wireSpecimen) short(b []byte) []byte { return append([]byte{byte(len(b))}, b...) }

func (s wireSpecimen) long(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// entry is a table's entry of a type whose value is one octet at most.
func (s wireSpecimen) entry(name string, letter byte) []byte {
	b := append(s.short([]byte(name)), letter)
	if letter == 't' {
		b = append(b, 1)
	}
	return b
}

// named is a table's entry whose value has a length.
func (s wireSpecimen) named(name string, letter byte, value []byte) []byte {
	return append(s.short([]byte(name)), s.typed(letter, s.long(value))...)
}

// headers are properties with these entries of a table alone.
func (s wireSpecimen) headers(entries ...[]byte) []byte {
	var table []byte
	for _, e := range entries {
		table = append(table, e...)
	}
	return append([]byte{0x20, 0}, s.long(table)...)
}
