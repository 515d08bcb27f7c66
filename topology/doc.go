// Package topology says what is wrong with a broker's exchanges, queues, bindings, policies and rights: what a plan
// asks for and the broker lacks, and what would lose or multiply messages although the broker confirms them.
//
// The parts:
//
//   - [Broker]: one virtual host as it is. [ReadDefinitions] makes one of an export, [ReadAPI] of the management API,
//     [ReadPassive] of passive declares. What a reader could not see is named in [Broker.Unseen].
//   - [Plan]: what an operator wants, read from a topology file by [ParsePlan]. [Plan.Definitions] is the same as a
//     definitions file, which a broker imports.
//   - [Check]: the rules. They are pure: the same broker and plan give the same [Report]. What a rule needs and nobody
//     saw makes it not checked, never passed.
//
// The package does no I/O and imports nothing but model. It changes no broker: declaring is an import of definitions,
// by whatever tool the operator trusts.
package topology
