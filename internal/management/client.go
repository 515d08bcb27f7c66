// Package management reads RabbitMQ's management API, which tells what AMQP does not: the
// exchanges of a virtual host, their kinds and bindings, and so the queues that a message would
// reach now. It changes nothing on the broker.
package management

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// DefaultTimeout bounds one request, the answer's body included.
	DefaultTimeout = 10 * time.Second
	// maxAnswer is the most bytes of one answer: some 200,000 bindings.
	maxAnswer = 64 << 20
	// maxReason is the most bytes of a refusal that an error repeats.
	maxReason = 200
)

// ErrNotFound says that the virtual host, or the thing in it, does not exist.
var ErrNotFound = errors.New("not found")

// Config says where the management API is.
type Config struct {
	// URL is http://user:password@host:port or https://, with a path where the API has a
	// prefix. The user needs the tag management and a permission in the virtual host.
	URL string
	// TLS is for an https URL. Nil is the system's authorities.
	TLS *tls.Config
	// Timeout bounds one request. Defaults to [DefaultTimeout].
	Timeout time.Duration
}

// Client asks one management API. Safe for concurrent use.
type Client struct {
	base           string // without a slash at its end
	user, password string
	timeout        time.Duration
	http           *http.Client
}

// New checks cfg and connects to nothing. Its errors hold no password.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil: // its text would repeat the URL
		return nil, errors.New("the URL cannot be read; write http://user:password@host:15672, with special " +
			"characters of user and password percent-encoded")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q must be http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host; write http://user:password@host:15672")
	case u.User == nil || u.User.Username() == "":
		return nil, errors.New("the URL has no user; write http://user:password@host:15672")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the URL must end with host, port and path; percent-encode ? and # in a password")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("timeout %v must not be negative", cfg.Timeout)
	}
	c := &Client{user: u.User.Username(), timeout: cfg.Timeout}
	c.password, _ = u.User.Password()
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	u.User = nil
	c.base = strings.TrimSuffix(u.String(), "/")
	c.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: cfg.TLS, MaxIdleConnsPerHost: 1, IdleConnTimeout: c.timeout},
		// Whoever is redirected to has not been named by the operator, and gets no password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close ends the connections that are idle. Requests after it open new ones.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads the answer of GET /api/ and the path's elements, which are escaped, into out. An
// answer 404 is [ErrNotFound]. Errors name the request and never the password.
func (c *Client) Get(ctx context.Context, out any, path ...string) error {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	route := "/api/" + strings.Join(escaped, "/")
	if err := c.get(ctx, c.base+route, out); err != nil {
		return fmt.Errorf("management API: GET %s: %w", route, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, address string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	req.SetBasicAuth(c.user, c.password)
	resp, err := c.http.Do(req)
	if err != nil {
		var asked *url.Error // repeats method and address
		if errors.As(err, &asked) {
			err = asked.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no answer within %v", c.timeout)
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("the answer is not that of a management API: %w", err)
	}
	return nil
}

// refusal is why an answer is not a 200, and what to do where that is known.
func refusal(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusUnauthorized:
		return errors.New("401: the login is refused, or its user lacks the tag management " +
			"(rabbitmqctl set_user_tags USER management) or a permission in this virtual host")
	case http.StatusForbidden:
		return errors.New("403: the user may not see this")
	}
	reason, err := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	if err != nil || len(reason) == 0 {
		return errors.New(resp.Status)
	}
	return fmt.Errorf("%s: %q", resp.Status, reason)
}
