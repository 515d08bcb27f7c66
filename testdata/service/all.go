//go:build all

package main

import _ "github.com/transmsg/transmsg/internal/anystore" // what a service linked before stores were split by dialect
