package compensator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	tests := []struct {
		name   string
		change func(*compensator.Config)
		want   string // part of the error; empty: accepted
	}{
		{"zero is the defaults", func(*compensator.Config) {}, ""},
		{"no store", func(c *compensator.Config) { c.Store = nil }, "Store"},
		{"no sender", func(c *compensator.Config) { c.Sender = nil }, "Sender"},
		{
			"interval and cron", func(c *compensator.Config) { c.Interval, c.Cron = time.Second, "* * * * *" },
			`Interval 1s and Cron "* * * * *" exclude each other`,
		},
		{
			"short interval", func(c *compensator.Config) { c.Interval = time.Millisecond },
			"Interval 1ms must be at least 10ms",
		},
		{"negative interval", func(c *compensator.Config) { c.Interval = -1 }, "Interval -1ns"},
		{"cron", func(c *compensator.Config) { c.Cron = "*/5 * * * *" }, ""},
		{"cron with seconds", func(c *compensator.Config) { c.Cron = "*/5 * * * * *" }, ""},
		{"bad cron", func(c *compensator.Config) { c.Cron = "every day" }, `Cron "every day"`},
		{"cron with a zone", func(c *compensator.Config) { c.Cron = "CRON_TZ=Europe/Berlin 0 2 * * *" }, "in UTC"},
		{"rows", func(c *compensator.Config) { c.BatchRows = 5001 }, "BatchRows 5001 must be 1 to 5000"},
		{"bytes", func(c *compensator.Config) { c.BatchBytes = -1 }, "BatchBytes -1"},
		{"rate", func(c *compensator.Config) { c.Rate = -2 }, "Rate -2"},
		{"no rate", func(c *compensator.Config) { c.Rate = model.None }, ""},
		{
			"lease at its bound", func(c *compensator.Config) { c.Lease = 18 * time.Second },
			"Lease 18s must be above 18s",
		},
		{"lease above it", func(c *compensator.Config) { c.Lease = 18*time.Second + 1 }, ""},
		{
			"lease and confirm timeout", func(c *compensator.Config) { c.Sender = &fakeSender{confirm: time.Minute} },
			"Lease 1m0s must be above 1m3s",
		},
		{"lease and rate", func(c *compensator.Config) { c.Rate = 0.01 }, "batch/Rate 1m40s"},
		{"tiny rate", func(c *compensator.Config) { c.Rate = 5e-324 }, "batch/Rate 876000h0m0s"},
		{"drain timeout", func(c *compensator.Config) { c.DrainTimeout = -1 }, "DrainTimeout -1ns"},
		{
			"instance", func(c *compensator.Config) { c.Instance = long },
			`Instance "` + long + `" has 65 bytes, the limit is 64; correct it, or leave it empty for host-pid-random`,
		},
		{"instance at its bound", func(c *compensator.Config) { c.Instance = strings.Repeat("ä", 32) }, ""},
		{
			"instance that is no text", func(c *compensator.Config) { c.Instance = "relay-\xff" },
			`Instance "relay-\xff" must be valid UTF-8; correct it`,
		},
		{
			"instance with NUL", func(c *compensator.Config) { c.Instance = "relay\x00" },
			`Instance "relay\x00" must not contain NUL; correct it`,
		},
		{
			"empty service", func(c *compensator.Config) { c.Services = []string{"a", ""} },
			`Services: "" must have 1 to 64 bytes; name it as its publishers do`,
		},
		{
			"service that is no text", func(c *compensator.Config) { c.Services = []string{"a", "\xc3"} },
			`Services: "\xc3" must be valid UTF-8; name it as its publishers do, or leave Services empty for all`,
		},
		{
			"service with NUL", func(c *compensator.Config) { c.Services = []string{"\x00", "a"} },
			`Services: "\x00" must not contain NUL; name it`,
		},
		{
			"T5 service with a space", func(c *compensator.Config) { c.Services = []string{"pay "} },
			`Services: "pay " begins or ends with white space ("pay" is meant?); name it as its publishers do`,
		},
		{"service twice", func(c *compensator.Config) { c.Services = []string{"a", "b", "a"} }, `"a" is there twice`},
		{"long service", func(c *compensator.Config) { c.Services = []string{long} }, "has 65 bytes"},
		{"policy", func(c *compensator.Config) { c.Policy.MaxAttempts = -1 }, "MaxAttempts -1"},
		{
			"slow start", func(c *compensator.Config) { c.SlowStart = -2 },
			"SlowStart -2ns must be above 0, or model.None",
		},
		{"no slow start", func(c *compensator.Config) { c.SlowStart = model.None }, ""},
		{"short window", func(c *compensator.Config) { c.AlertWindow = 999 * time.Millisecond }, "AlertWindow 999ms"},
		{"long window", func(c *compensator.Config) { c.AlertWindow = 25 * time.Hour }, "1s to 24h0m0s"},
		{"oldest", func(c *compensator.Config) { c.OldestReady = time.Millisecond }, "OldestReady 1ms must be"},
		{"events", func(c *compensator.Config) { c.EventRetention = time.Minute }, "EventRetention 1m0s"},
		{"dead", func(c *compensator.Config) { c.DeadRetention = -2 }, "DeadRetention -2ns"},
		{
			"kept for ever and purged",
			func(c *compensator.Config) { c.EventRetention, c.DeadRetention = model.None, time.Hour }, "",
		},
		{"inbox", func(c *compensator.Config) { c.InboxRetention = time.Minute }, "InboxRetention 1m0s must be"},
		{
			"inbox shorter than the queues", func(c *compensator.Config) { c.InboxRetention = 335 * time.Hour },
			"InboxRetention 335h0m0s must be at least QueueRetention 336h0m0s",
		},
		{
			"inbox shorter than DEAD rows",
			func(c *compensator.Config) {
				c.InboxRetention, c.QueueRetention, c.DeadRetention = 2*time.Hour, model.None, 3*time.Hour
			},
			"InboxRetention 2h0m0s must be at least DeadRetention 3h0m0s",
		},
		{
			"queues", func(c *compensator.Config) { c.QueueRetention = -2 },
			"QueueRetention -2ns must be above 0, or model.None",
		},
		{
			"the default is above the others",
			func(c *compensator.Config) { c.QueueRetention, c.DeadRetention = 999*time.Hour, 1999*time.Hour }, "",
		},
		{
			"inbox for ever",
			func(c *compensator.Config) { c.InboxRetention, c.DeadRetention = model.None, 1999*time.Hour },
			"",
		},
		{"limits", func(c *compensator.Config) { c.Limits.MaxBody = -1 }, "Limits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := compensator.Config{Store: newStore(), Sender: newSender()}
			tt.change(&cfg)
			_, err := compensator.New(cfg)
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "compensator: config: ") ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a compensator: config: error with %q", err, tt.want)
			}
		})
	}
}

func TestRunTwiceIsRefused(t *testing.T) {
	t.Parallel()
	c, err := compensator.New(compensator.Config{Store: newStore(), Sender: newSender()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := contextDone(t)
	defer cancel()
	if err := c.Run(ctx); err != nil {
		t.Errorf("first run under a context that has ended: %v, want nil", err)
	}
	if err := c.Run(ctx); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("second run: %v, want a refusal", err)
	}
}

// The default policy is valid and the default lease leaves time to send.
func TestDefaultsHold(t *testing.T) {
	t.Parallel()
	if err := (model.Policy{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	if compensator.DefaultLease <= confirms.DefaultConfirmTimeout+model.LeaseMargin {
		t.Error("the default lease leaves no time to send")
	}
}
