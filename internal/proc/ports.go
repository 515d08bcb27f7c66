package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports come from below the ephemeral range of Linux (32768 and up), so that
// no outgoing connection of any process takes one while its server is down.
const (
	portLow   = 12000
	portHigh  = 32000
	portTries = 500
)

// FreePorts returns n distinct loopback TCP ports on which nothing listens.
// They are not reserved: another process may take one before its server does,
// so a server that ends at once is started again on new ports.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := portLow + rand.IntN(portHigh-portLow)
		l, err := net.Listen("tcp", Loopback(port))
		if err != nil {
			continue
		}
		// Held until all are found, so that no port is returned twice.
		defer l.Close()
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("free ports: found %d of %d after %d tries", len(ports), n, portTries)
}

// Loopback returns the address of a port on 127.0.0.1.
func Loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
