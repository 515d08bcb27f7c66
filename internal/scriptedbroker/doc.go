// Package scriptedbroker is a small AMQP 0-9-1 server that a test scripts message by
// message, for orders of acks, nacks, returns and closes that a real broker will
// not produce on demand.
//
// It answers the handshake, channel.open and close, confirm.select, passive or
// active exchange.declare, basic.qos and heartbeats by itself. Every
// basic.publish is handed to the script with its delivery tag; what the client
// then hears is the script's business alone: nothing is routed, stored or
// confirmed. A method that it does not know ends the connection with 540.
//
// It is no broker: whatever a real one can show belongs on a real one.
package scriptedbroker
