package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Timeout bounds one delivery of a [WebhookSink] or a [ShoutrrrSink].
const Timeout = 5 * time.Second

// WebhookConfig configures a [WebhookSink].
type WebhookConfig struct {
	// URL is http:// or https://; it may hold a token and is never shown. Required.
	URL string
	// Secret signs the requests, see [Sign]. Empty means unsigned.
	Secret []byte
	// Client, if set, makes the requests, such as one with an own CA. Its Timeout is
	// replaced where it is none or longer than 5 s, and it follows no redirects.
	Client *http.Client
}

// WebhookSink posts alerts as JSON:
//
//	{
//	  "version": 1,
//	  "kind": "dead",
//	  "service": "orders",
//	  "exchange": "ex",
//	  "routing_key": "order.created",
//	  "code": "312",
//	  "text": "NO_ROUTE",
//	  "count": 3,
//	  "first": "2026-01-02T03:04:05.678Z",
//	  "last": "2026-01-02T03:04:09.012Z",
//	  "routing_keys": {"count": 0, "samples": []},
//	  "exchanges": {"count": 0, "samples": []},
//	  "sample": {"id": "01890000-0000-7000-8000-000000000009", "key": "order-7", "attempts": 10},
//	  "instance": "host-1-abc",
//	  "environment": "production",
//	  "meaning": "no queue is bound for this routing key",
//	  "total": 7,
//	  "oldest": "2026-01-02T03:04:05.678Z",
//	  "command": "transmsg messages list --status DEAD --service orders --config /etc/transmsg.yaml",
//	  "resend": "transmsg messages replay --service orders --config /etc/transmsg.yaml",
//	  "summary": "dead: 3 message(s), ..."
//	}
//
// kind is one of the model.Alert constants; other kinds and further fields may come with
// later versions. first, last and sample are missing where there are none, and so are
// environment, meaning, total, oldest (how many rows are in this state in all, and since
// when) and resend (what sends them again once the cause is mended). routing_keys and
// exchanges are there where many have one cause and are told as one: how many there are, and
// the first of them; routing_key, or exchange, is then empty. Any 2xx status accepts the
// alert. 429, and 503 with Retry-After, are a [ThrottledError]. The same alert may be posted
// twice.
type WebhookSink struct {
	url    string
	secret []byte
	client *http.Client
}

// NewWebhook returns a sink, or an error that does not contain the URL. It makes no
// connection.
func NewWebhook(cfg WebhookConfig) (*WebhookSink, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("alert: webhook: URL is not of the form https://host/path")
	}
	s := &WebhookSink{url: cfg.URL, secret: bytes.Clone(cfg.Secret)}
	if cfg.Client != nil {
		client := *cfg.Client
		s.client = &client
	} else {
		s.client = newClient()
	}
	if s.client.Timeout <= 0 || s.client.Timeout > Timeout {
		s.client.Timeout = Timeout
	}
	// Another host is not to get the alert, nor a POST to become a GET.
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// newClient keeps no connections: alerts are rare.
func newClient() *http.Client {
	return &http.Client{Timeout: Timeout, Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: Timeout}).DialContext,
		TLSHandshakeTimeout: Timeout, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

// Alert posts one alert within 5 s and the time of ctx. The error does not contain the
// URL, nor what was answered but for the status.
func (s *WebhookSink) Alert(ctx context.Context, a model.Alert) error {
	body, err := encode(&a)
	if err != nil {
		return fmt.Errorf("webhook: encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("webhook: URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "transmsg")
	if len(s.secret) > 0 {
		req.Header.Set(SignatureHeader, Sign(s.secret, time.Now(), body))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("webhook: %s", reason(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		err := fmt.Errorf("webhook: answered with status %d", resp.StatusCode)
		if after, ok := throttled(resp); ok {
			return &ThrottledError{After: after, Err: err}
		}
		return err
	}
	return nil
}

// payload is the documented JSON.
type payload struct {
	Version    int            `json:"version"`
	Kind       string         `json:"kind"`
	Service    string         `json:"service"`
	Exchange   string         `json:"exchange"`
	RoutingKey string         `json:"routing_key"`
	Code       string         `json:"code"`
	Text       string         `json:"text"`
	Count      int            `json:"count"`
	Keys       *payloadNames  `json:"routing_keys,omitempty"`
	Exchanges  *payloadNames  `json:"exchanges,omitempty"`
	First      string         `json:"first,omitempty"`
	Last       string         `json:"last,omitempty"`
	Sample     *payloadSample `json:"sample,omitempty"`
	Instance   string         `json:"instance"`
	Env        string         `json:"environment,omitempty"`
	Meaning    string         `json:"meaning,omitempty"`
	Total      int64          `json:"total,omitempty"`
	Oldest     string         `json:"oldest,omitempty"`
	Command    string         `json:"command"`
	Resend     string         `json:"resend,omitempty"`
	Summary    string         `json:"summary"`
}

type payloadNames struct {
	Count   int      `json:"count"`
	Samples []string `json:"samples"`
}

func namesOf(n model.AlertNames) *payloadNames {
	if n.Count == 0 {
		return nil
	}
	return &payloadNames{Count: n.Count, Samples: n.Samples[:min(n.Count, model.MaxAlertNames)]}
}

type payloadSample struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	Attempts int    `json:"attempts"`
}

func encode(a *model.Alert) ([]byte, error) {
	p := payload{
		Version: 1, Kind: string(a.Kind), Service: a.Service, Exchange: a.Exchange, RoutingKey: a.RoutingKey,
		Code: string(a.Code), Text: a.Text, Count: a.Count, First: stamp(a.First), Last: stamp(a.Last),
		Keys: namesOf(a.RoutingKeys), Exchanges: namesOf(a.Exchanges),
		Instance: a.Instance, Command: a.Command, Summary: a.String(),
		Env: a.Environment, Meaning: a.Meaning, Total: a.Total, Oldest: stamp(a.Oldest), Resend: a.Resend,
	}
	if a.Sample.ID != "" {
		p.Sample = &payloadSample{ID: a.Sample.ID, Key: a.Sample.Key, Attempts: a.Sample.Attempts}
	}
	return json.Marshal(p)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
