package amqptest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// OAuth signs tokens that a private node with [OAuth.Options] takes as passwords.
type OAuth struct {
	key *rsa.PrivateKey
	pem string // file of the public key
}

// NewOAuth makes a key and writes its public half into dir, which outlives the node.
func NewOAuth(dir string) (*OAuth, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode a signing key: %w", err)
	}
	o := &OAuth{key: key, pem: filepath.Join(dir, "oauth.pem")}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if err := os.WriteFile(o.pem, text, 0o600); err != nil {
		return nil, fmt.Errorf("write a signing key: %w", err)
	}
	return o, nil
}

// Options are those of a node that lets in users of its own and bearers of tokens.
func (o *OAuth) Options() Options {
	return Options{
		Plugins: []string{"rabbitmq_auth_backend_oauth2"},
		Config: []string{
			"auth_backends.1 = internal",
			"auth_backends.2 = rabbit_auth_backend_oauth2",
			"auth_oauth2.resource_server_id = rabbitmq",
			"auth_oauth2.default_key = test",
			"auth_oauth2.signing_keys.test = " + o.pem,
		},
	}
}

// Token is a password that ends after so long, with these scopes, such as
// "rabbitmq.write:*/*". The broker counts in whole seconds.
func (o *OAuth) Token(life time.Duration, scopes ...string) (string, error) {
	part := func(v any) (string, error) {
		text, err := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text), err
	}
	head, err := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "test"})
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	now := time.Now()
	claims, err := part(map[string]any{
		"sub": "service", "client_id": "service", "aud": []string{"rabbitmq"}, "scope": scopes,
		"iat": now.Unix(), "jti": now.UnixNano(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	sum := sha256.Sum256([]byte(head + "." + claims))
	signature, err := rsa.SignPKCS1v15(rand.Reader, o.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return head + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
