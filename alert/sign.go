package alert

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SignatureHeader is the header of a signed request.
const SignatureHeader = "Transmsg-Signature"

// ErrSignature is the error of [Verify].
var ErrSignature = errors.New("signature does not match")

// Sign returns the value of [SignatureHeader] for a body:
//
//	t=<Unix seconds>,v1=<hex of HMAC-SHA256(secret, "<Unix seconds>.<body>")>
//
// The body is the raw one, byte for byte.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac(secret, t, body))
}

// Verify is for receivers: it checks that header is [Sign]'s for this body and not older
// or newer than tolerance, 5 minutes being usual. Compare before parsing the body.
func Verify(secret []byte, header string, body []byte, tolerance time.Duration) error {
	t, sum, ok := strings.Cut(header, ",v1=")
	t, found := strings.CutPrefix(t, "t=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	given, hexErr := hex.DecodeString(sum)
	if !ok || !found || err != nil || hexErr != nil || !hmac.Equal(given, mac(secret, t, body)) {
		return ErrSignature
	}
	if age := time.Since(time.Unix(seconds, 0)).Abs(); age > tolerance {
		return fmt.Errorf("%w: it is %v off", ErrSignature, age.Round(time.Second))
	}
	return nil
}

func mac(secret []byte, t string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t + "."))
	h.Write(body)
	return h.Sum(nil)
}
