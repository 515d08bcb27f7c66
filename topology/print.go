package topology

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// policyNames are the policies that a plan declares.
var policyNames = map[purpose]string{forWork: "transmsg-work", forLetters: "transmsg-dead-letters"}

// policyPriority is above what most brokers have for all queues: of several policies one alone is in force.
const policyPriority = 100

const sha256Hash = "rabbit_password_hashing_sha256"

// Definitions is the plan as a definitions file, which "rabbitmqctl import_definitions", "rabbitmqadmin import" and
// the management API take. An import adds what is missing, sets policies, rights and passwords, and leaves existing
// exchanges and queues as they are. Users are in it where their password is known, as a salted hash: the text is as
// secret as an export of the broker.
func (p *Plan) Definitions() ([]byte, error) {
	w := p.wanted()
	d := definitions{VHosts: []vhostJSON{{Name: p.VHost}}}
	for _, e := range w.exchanges {
		d.Exchanges = append(d.Exchanges, exchangeJSON{
			VHost: p.VHost, Name: e.Name, Type: e.Type, Durable: true, Arguments: orEmpty(e.Arguments),
		})
	}
	byPolicy := map[purpose][]string{}
	definition := map[purpose]map[string]any{}
	for _, q := range w.queues {
		d.Queues = append(d.Queues, queueJSON{VHost: p.VHost, Name: q.Name, Durable: true, Arguments: q.Arguments})
		if q.policy != nil {
			byPolicy[q.purpose] = append(byPolicy[q.purpose], q.Name)
			definition[q.purpose] = q.policy
		}
	}
	for _, b := range w.bindings {
		kind := "queue"
		if b.ToExchange {
			kind = "exchange"
		}
		d.Bindings = append(d.Bindings, bindingJSON{
			VHost: p.VHost, Source: b.Source, Destination: b.Destination, Kind: kind, Key: b.Key,
			Arguments: orEmpty(nil),
		})
	}
	for _, of := range []purpose{forWork, forLetters} {
		d.Policies = append(d.Policies, policyJSON{
			VHost: p.VHost, Name: policyNames[of], Pattern: exactly(byPolicy[of]), ApplyTo: "queues",
			Priority: policyPriority, Definition: definition[of],
		})
	}
	for _, r := range w.rights {
		d.addRights(p.VHost, r)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("definitions: %w", err)
	}
	return append(text, '\n'), nil
}

func (d *definitions) addRights(vhost string, r wantedRights) {
	if r.login.Password != "" {
		d.Users = append(d.Users, userJSON{
			Name: r.login.Name, Hash: hash(r.login.Password), Algorithm: sha256Hash, Tags: []string{},
		})
	}
	d.Permissions = append(d.Permissions, permissionJSON{
		User: r.login.Name, VHost: vhost, Configure: "^$", Write: exactly(r.write), Read: exactly(r.read),
	})
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

const saltBytes = 4

// hash is a password as the broker keeps it: four bytes of salt, then SHA-256 over salt and password.
func hash(password string) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails: see crypto/rand
	sum := sha256.Sum256(append(salt[:saltBytes:saltBytes], password...))
	return base64.StdEncoding.EncodeToString(append(salt, sum[:]...))
}

// hasPassword tells whether the user's hash is that of the password. known is false where it is another algorithm's.
func (u User) hasPassword(password string) (is, known bool) {
	raw, err := base64.StdEncoding.DecodeString(u.Hash)
	if err != nil || u.Algorithm != sha256Hash || len(raw) != saltBytes+sha256.Size {
		return false, false
	}
	sum := sha256.Sum256(append(raw[:saltBytes:saltBytes], password...))
	return string(sum[:]) == string(raw[saltBytes:]), true
}
