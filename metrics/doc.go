// Package metrics turns the Observers and Stats of publisher, compensator and confirms
// into Prometheus metrics. It is optional: nothing else imports it, and a service that
// does without it does not link Prometheus.
//
//	m, err := metrics.New(metrics.Config{Store: store})
//	prometheus.MustRegister(m)                // or serve m.Handler() on /metrics
//	sender, err := m.OpenSender(senderConfig) // instead of confirms.Open
//	pub, err := m.OpenPublisher(pubConfig)    // instead of publisher.Open
//	cons, err := m.NewConsumer(consConfig)    // instead of consumer.New
//	compConfig.Observers = append(compConfig.Observers, m.CompensatorObserver())
//
// The front takes all of it as one line, [transmsg.Config].Metrics: m, also for its compensator.
//
// What goes wrong shows in the numbers, never as a failed scrape: while the store does not
// answer, transmsg_rows_up is 0 and the figures of the rows are those of the last answer.
//
// # Metrics
//
// Counters end in _total, histograms in _duration_seconds, everything else is a gauge.
//
// Outcomes. Role is publisher (first sends) or compensator; kind is acked, nacked,
// returned, refused, unknown or deferred; code is the cause as in the table's last_code
// (312, 404, nack, timeout, ...), empty when acked:
//
//	transmsg_outcomes_total{role,service,kind,code}
//	transmsg_restored_rows_total{role,service}       rows found gone and inserted again
//	transmsg_store_errors_total{role,operation}      failed reads and writes, tried again
//
// Operation is delete, settle, restore or stats; of a publisher also read-back or renew, of a
// compensator services, claim, claim-dead, claim-alerts, mark-alerted, mark-alerts, purge-events,
// purge-dead, purge-inbox or purge-alerts.
//
// Publisher. Result is stored, refused (the id is stored with other content, or DEAD),
// not-stored, unknown or rolled-back:
//
//	transmsg_publish_duration_seconds{service,result}    what the store took, per call
//	transmsg_publisher_in_flight{service}                calls and sends without an outcome
//	transmsg_publisher_unsettled{service}                outcomes not yet written
//	transmsg_publisher_oldest_due_seconds{service}       looked at once a minute
//
// Sender. Sender is the Name of its Config; code is the AMQP code of the exception:
//
//	transmsg_confirm_duration_seconds{sender}            from the write to the broker's answer
//	transmsg_sender_connected{sender}                    1 or 0
//	transmsg_sender_ready{sender}                        takes new work: 1 or 0
//	transmsg_sender_blocked{sender}                      by an alarm of the broker: 1 or 0
//	transmsg_sender_connections_total{sender}            reconnects are all but the first
//	transmsg_sender_channel_exceptions_total{sender,code}
//	transmsg_sender_in_flight{sender}                    on the wire and unconfirmed
//	transmsg_sender_window{sender}                       the most that in_flight can be
//	transmsg_sender_timed_out{sender}                    of in_flight: overdue
//	transmsg_sender_late_acks_total{sender}              acked after they had timed out
//	transmsg_sender_overdue_total{sender}                without a confirm in time: copies, perhaps
//	transmsg_sender_silent_routes{sender}                not confirmed: their messages wait
//	transmsg_sender_pending{sender}                      reserved, or sent and not done
//	transmsg_sender_pending_limit{sender}                the most that pending can be
//	transmsg_sender_pending_bytes{sender}                body bytes of pending
//
// Compensator. Result of a run is drained (nothing was due any more), ended-early,
// stopped, lock-lost, or, when it did not begin, sender-not-ready, locked or
// lock-unavailable; of an alert it is delivered or failed:
//
//	transmsg_runs_started_total                          runs that got their lock slot
//	transmsg_runs_total{result}
//	transmsg_run_duration_seconds
//	transmsg_lock_held                                   a run is under way: 1 or 0
//	transmsg_lock_service_up                             Redis answers: 1 or 0; none without Redis
//	transmsg_claims_total                                claim statements
//	transmsg_claimed_rows_total
//	transmsg_lease_conflicts_total{service}              outcomes of rows that somebody else had by then
//	transmsg_dead_total{service,code}                    rows marked DEAD
//	transmsg_alerts_total{result}
//	transmsg_waiting_rows_total                          claimed rows that wait: their exchange is broken
//	transmsg_breaker_open{exchange}                      what of it is refused: itself 1, a topic 1; none: no series
//	transmsg_purged_total{what}                          deleted by age: events, dead, inbox; or alerts without use
//
// Consumer. Result is handled, skipped, retried, dead-lettered, given-back, lost or recounted; answer is ok, failed,
// permanent, unavailable, busy, skipped, panic or deadline; cause is exhausted, permanent or crashed; state is
// consuming, connecting, missing, unavailable, stuck, paused or stopped; attempt is at most 32:
//
//	transmsg_consumer_deliveries_total{queue,result}
//	transmsg_consumer_dead_letters_total{queue,cause}
//	transmsg_consumer_handled_total{queue,attempt}       by the attempt that succeeded
//	transmsg_consumer_call_duration_seconds{queue,answer} handler calls
//	transmsg_consumer_effect_duration_seconds{queue}     from the publisher's storing or stamping to the handling
//	transmsg_consumer_recovery_duration_seconds{queue}   from the first failure to the handling
//	transmsg_consumer_state{queue,state}                 1 for the present state, 0 for the others
//	transmsg_consumer_stuck{queue,target}                what copies need and do not get: 1; none: no series
//	transmsg_consumer_held{queue}                        deliveries that are not settled
//	transmsg_consumer_in_flight{queue}                   handler calls at the moment
//	transmsg_consumer_step_oldest_seconds{queue,step}    how long the oldest has been in the retry step, at least
//	transmsg_consumer_step_length_seconds{queue,step}    how long a message should be there
//	transmsg_consumer_step_messages{queue,step}          messages in it; with the management API only, as all of steps
//	transmsg_consumer_step_forwarding{queue,step}        of them: over, and not taken by the work queue
//	transmsg_consumer_copies_failed_total{queue}         tries to send a copy that were not confirmed
//
// Collector of dead letters:
//
//	transmsg_collector_collecting{queue}                 1 or 0: the log, or /readyz, says why not
//	transmsg_collector_held{queue}                       letters in memory
//	transmsg_collector_stored_total{queue}
//	transmsg_collector_aside_total{queue}                cannot be stored: moved to the uncollectable queue
//	transmsg_collector_failures_total{queue}             tries to store or move that came to nothing
//
// Rows, from the table, read at most every Config.RowsEvery. Every process that is given
// a Store shows the same figures, so take max, not sum. Status is ready or dead:
//
//	transmsg_rows{service,status}
//	transmsg_rows_due{service}                           READY and due now
//	transmsg_rows_exhausted{service}                     READY, attempts used up: sent on, not DEAD yet
//	transmsg_oldest_due_seconds{service}                 how long the oldest has been due
//	transmsg_oldest_ready_seconds{service}               age of the oldest READY row not waiting for its NotBefore
//	transmsg_rows_up                                     the last read succeeded: 1 or 0
//	transmsg_rows_read_timestamp_seconds                 when the last read succeeded, Unix time
package metrics
