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

// metric returns the sum of all series of a metric on addr; none is an error.
func metric(ctx context.Context, addr, name string) (float64, error) {
	sum, found, err := series(ctx, addr, name, "")
	if err == nil && !found {
		err = fmt.Errorf("no metric %s", name)
	}
	return sum, err
}

// seriesSum returns the sum of those with the label; none is 0.
func seriesSum(ctx context.Context, addr, name, label string) (float64, error) {
	sum, _, err := series(ctx, addr, name, label)
	return sum, err
}

func series(ctx context.Context, addr, name, label string) (sum float64, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		end := strings.LastIndexByte(lines.Text(), ' ') // a label may have spaces
		if end < 0 {
			continue
		}
		line, value := lines.Text()[:end], lines.Text()[end+1:]
		if base, labels, _ := strings.Cut(line, "{"); base != name || !strings.Contains(labels, label) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, false, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+n, true
	}
	return sum, found, nil
}
