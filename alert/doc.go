// Package alert delivers alerts of the compensator to people: to a log, as JSON to a
// webhook, through the services that shoutrrr knows (chat, mail, paging), or to several
// of these. Every sink has the one method that a compensator's Alerter asks for:
//
//	Alert(ctx context.Context, a model.Alert) error
//
// nil means accepted. A sink tries once and keeps nothing: what it did not accept is
// still owed in the table and comes again, so an alert may arrive twice. Sinks are safe
// for concurrent use.
//
// No sink shows a body or a header of a message: they are not part of an alert. URLs hold
// tokens, so no error of this package contains one, nor what a service answered.
package alert
