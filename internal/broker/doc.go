// Package broker opens AMQP connections and keeps their logins: what the sending and the receiving half share. Its
// socket never blocks the client library, its errors name the likely reason and never hold a secret.
package broker
