package model_test

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// TestT5_ServicesOfWhiteSpace: a name that nobody can tell from another by looking, or that
// MySQL holds for the same, is refused with the reason.
func TestT5_ServicesOfWhiteSpace(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": "1 to 64 bytes", " ": "white space only", "\t\u00a0\u3000": "white space only",
		"pay ": `"pay" is meant`, " pay": `"pay" is meant`, "pay\n": `"pay" is meant`, "\u2003pay": `"pay" is meant`,
		strings.Repeat("s", 65): "65 bytes", "p\xff": "UTF-8", "p\x00y": "NUL",
	} {
		if err := model.CheckService(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", name, err, want)
		}
	}
	for _, name := range []string{"pay", "pay ments", "Zürich/订单", strings.Repeat("s", 64), "😀"} {
		if err := model.CheckService(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
