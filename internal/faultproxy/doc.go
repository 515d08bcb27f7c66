// Package faultproxy puts a TCP proxy between a client and a real server and
// breaks the connection between them: cut, refused, stalled, delayed, and for
// AMQP 0-9-1 with the broker's acks taken out.
//
// Every fault counts what it did ([Stats]), so that a test can prove that it
// bit. The proxy copies bytes unchanged apart from the acks that it takes out.
package faultproxy
