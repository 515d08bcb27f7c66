package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
)

// freeAddr returns host:port for a daemon's --http.
func freeAddr() (string, error) {
	ports, err := proc.FreePorts(1)
	if err != nil {
		return "", err
	}
	return proc.Loopback(ports[0]), nil
}

// metric returns the sum of all series of a metric on addr.
func metric(ctx context.Context, addr, name string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	sum, found := 0.0, false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+n, true
	}
	if !found {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return sum, nil
}
