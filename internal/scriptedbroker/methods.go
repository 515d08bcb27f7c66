package scriptedbroker

import (
	"fmt"
	"net"
)

// The methods that the peer sends or understands.
const (
	connectionStart     = method(10<<16 | 10)
	connectionStartOk   = method(10<<16 | 11)
	connectionTune      = method(10<<16 | 30)
	connectionTuneOk    = method(10<<16 | 31)
	connectionOpen      = method(10<<16 | 40)
	connectionOpenOk    = method(10<<16 | 41)
	connectionClose     = method(10<<16 | 50)
	connectionCloseOk   = method(10<<16 | 51)
	connectionBlocked   = method(10<<16 | 60)
	connectionUnblocked = method(10<<16 | 61)
	channelOpen         = method(20<<16 | 10)
	channelOpenOk       = method(20<<16 | 11)
	channelClose        = method(20<<16 | 40)
	channelCloseOk      = method(20<<16 | 41)
	exchangeDeclare     = method(40<<16 | 10)
	exchangeDeclareOk   = method(40<<16 | 11)
	basicQos            = method(60<<16 | 10)
	basicQosOk          = method(60<<16 | 11)
	basicPublish        = method(60<<16 | 40)
	basicReturn         = method(60<<16 | 50)
	basicAck            = method(60<<16 | 80)
	basicNack           = method(60<<16 | 120)
	confirmSelect       = method(85<<16 | 10)
	confirmSelectOk     = method(85<<16 | 11)
)

// Reply codes that the peer sends by itself.
const (
	notFound       = 404
	channelError   = 504
	notImplemented = 540
)

// method answers one method frame. An error ends the connection.
func (c *Conn) method(f frame) error {
	in := &fields{rest: f.payload}
	m := method(in.long())
	switch m {
	case connectionClose:
		_ = c.sendMethod(0, newArgs(connectionCloseOk))
		return net.ErrClosed
	case connectionCloseOk:
		return net.ErrClosed
	case channelOpen:
		c.mu.Lock()
		c.channels[f.channel] = &channel{}
		c.mu.Unlock()
		return c.sendMethod(f.channel, newArgs(channelOpenOk).longstr(""))
	case channelClose, channelCloseOk:
		c.mu.Lock()
		delete(c.channels, f.channel)
		c.mu.Unlock()
		if m == channelCloseOk {
			return nil
		}
		return c.sendMethod(f.channel, newArgs(channelCloseOk))
	default:
		return c.channelMethod(f.channel, m, in)
	}
}

// channelMethod answers what needs an open channel.
func (c *Conn) channelMethod(number uint16, m method, in *fields) error {
	c.mu.Lock()
	ch := c.channels[number]
	ignored := ch != nil && ch.closing
	c.mu.Unlock()
	if ch == nil {
		return c.Close(channelError, fmt.Sprintf("CHANNEL_ERROR - channel %d is not open", number))
	}
	if ignored {
		return nil
	}
	switch m {
	case confirmSelect:
		ch.confirming = true
		return c.sendMethod(number, newArgs(confirmSelectOk))
	case basicQos:
		return c.sendMethod(number, newArgs(basicQosOk))
	case exchangeDeclare:
		in.short()
		name := in.shortstr()
		if !c.peer.declare(name) {
			return c.CloseChannel(number, notFound, "NOT_FOUND - no exchange '"+name+"' in vhost '/'")
		}
		return c.sendMethod(number, newArgs(exchangeDeclareOk))
	case basicPublish:
		in.short()
		p := &Publish{Conn: c, Channel: number, Exchange: in.shortstr(), RoutingKey: in.shortstr()}
		const mandatoryBit = 1
		p.Mandatory = in.octet()&mandatoryBit != 0
		ch.incoming = p
		return nil
	default:
		return c.Close(notImplemented, fmt.Sprintf("NOT_IMPLEMENTED - class %d method %d", m>>16, m&0xFFFF))
	}
}

// content adds a header or body frame to the publish that it belongs to, and
// hands it over when it is complete.
func (c *Conn) content(f frame) {
	c.mu.Lock()
	ch := c.channels[f.channel]
	ignored := ch == nil || ch.closing
	c.mu.Unlock()
	if ignored || ch.incoming == nil {
		return
	}
	p := ch.incoming
	if f.kind == frameHeader {
		in := &fields{rest: f.payload}
		in.long() // class and weight
		ch.size = in.longlong()
		p.Header, p.MessageID = f.payload, messageID(f.payload)
	} else {
		p.Body = append(p.Body, f.payload...)
	}
	if uint64(len(p.Body)) < ch.size {
		return
	}
	ch.incoming = nil
	if ch.confirming {
		ch.tag++
		p.Tag = ch.tag
	}
	c.peer.publish(p)
}
