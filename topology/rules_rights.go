package topology

import (
	"fmt"
	"slices"
)

func rightRules() []rule {
	return []rule{
		{
			"user-missing", "the login of a role is not there", ViewAll, true,
			[]Part{PartUsers},
			userMissing,
		},
		{
			"user-differs", "a login has tags, or another password than the one given", ViewAll, true,
			[]Part{PartUsers},
			userDiffers,
		},
		{
			"right-missing", "a login may not do what its role must", ViewAll, true,
			[]Part{PartPermissions},
			rightMissing,
		},
		{
			"right-excess", "a login may do more than its role must", ViewAll, true,
			[]Part{PartPermissions},
			rightExcess,
		},
		{
			"topic-permission", "a topic permission can forbid single routing keys", ViewPublisher, true,
			[]Part{PartTopicPermissions},
			topicPermission,
		},
	}
}

// logins are those of the view.
func (l *look) logins() []wantedRights {
	var out []wantedRights
	for _, r := range l.want.rights {
		sends := r.role == Publisher || r.role == Compensator
		if l.view == ViewAll || sends == (l.view == ViewPublisher) {
			out = append(out, r)
		}
	}
	return out
}

func userMissing(l *look) []Finding {
	var out []Finding
	for _, want := range l.logins() {
		if _, ok := l.Users[want.login.Name]; !ok {
			out = append(out, l.found("user "+want.login.Name, "missing: the %s cannot log in", want.role))
		}
	}
	return out
}

func userDiffers(l *look) []Finding {
	var out []Finding
	for _, want := range l.logins() {
		have, ok := l.Users[want.login.Name]
		if !ok {
			continue
		}
		object := "user " + want.login.Name
		if len(have.Tags) > 0 {
			f := l.found(object, "tags are %s, want none", show(have.Tags))
			f.Have, f.Want = show(have.Tags), "none"
			out = append(out, f)
		}
		if want.login.Password == "" {
			continue
		}
		switch is, known := have.hasPassword(want.login.Password); {
		case !known:
			l.note(object + ": the password: its hash is not shown, or not SHA-256")
		case !is:
			out = append(out, l.found(object, "the password is another than the one given"))
		}
	}
	return out
}

// pattern of a kind of right, and the names that it must match.
type rightCheck struct {
	kind, pattern string
	names         []string
}

func (p Permission) checks(want wantedRights) []rightCheck {
	return []rightCheck{
		{"configure", p.Configure, nil}, {"write", p.Write, want.write}, {"read", p.Read, want.read},
	}
}

// allowed tells whether the pattern of a right matches a name. An empty pattern is none.
func (l *look) allowed(user, pattern, name string) bool {
	if pattern == "" {
		return false
	}
	ok, err := matches(pattern, name)
	if err != nil {
		l.note(fmt.Sprintf("user %s: %v", user, err))
	}
	return ok
}

func rightMissing(l *look) []Finding {
	var out []Finding
	for _, want := range l.logins() {
		have, ok := l.Permissions[want.login.Name]
		object := "permission " + want.login.Name
		if !ok {
			out = append(out, l.found(object, "missing: the %s may do nothing in virtual host %s", want.role, l.VHost))
			continue
		}
		for _, c := range have.checks(want) {
			for _, name := range c.names {
				if !l.allowed(want.login.Name, c.pattern, name) {
					f := l.found(object, "%s is %s, which does not match %s: the %s needs it", c.kind, show(c.pattern),
						name, want.role)
					f.Have, f.Want = c.pattern, exactly(c.names)
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// anyName stands for names that nobody uses yet.
const anyName = "transmsg-any-other-name"

func rightExcess(l *look) []Finding {
	var out []Finding
	names := []string{anyName, defaultExchangeRight}
	for name := range l.Queues {
		names = append(names, name)
	}
	for name := range l.Exchanges {
		names = append(names, name)
	}
	for _, want := range l.logins() {
		have, ok := l.Permissions[want.login.Name]
		if !ok {
			continue
		}
		for _, c := range have.checks(want) {
			more := slices.ContainsFunc(names, func(name string) bool {
				return !slices.Contains(c.names, name) && l.allowed(want.login.Name, c.pattern, name)
			})
			if more {
				out = append(out, l.differs("permission "+want.login.Name, c.kind, c.pattern, exactly(c.names)))
			}
		}
	}
	return out
}

func topicPermission(l *look) []Finding {
	var out []Finding
	for _, have := range l.TopicPermissions {
		mine := slices.ContainsFunc(l.want.rights, func(r wantedRights) bool { return r.login.Name == have.User })
		if !mine {
			continue
		}
		exchange := have.Exchange
		if exchange == defaultExchange {
			exchange = "(default)"
		}
		out = append(out, l.found("user "+have.User,
			"a topic permission on %s can forbid single routing keys; clear it", exchange))
	}
	return out
}
