-- +goose Up
-- What consumers have dealt with: written first in the transaction of the effect.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox (
  consumer   VARCHAR(64) COLLATE "C" NOT NULL,
  record_key BYTEA NOT NULL,
  mark       BIGINT NOT NULL,
  done_at    BIGINT NOT NULL,
  CONSTRAINT {{prefix}}trans_inbox_pkey PRIMARY KEY (consumer, record_key)
) WITH (
  -- The purge deletes a little at a time of a table that is large.
  autovacuum_vacuum_scale_factor = 0.01
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_inbox_done ON {{prefix}}trans_inbox (done_at);

-- Deliveries of messages that came back without an answer: outside of the effect's transaction,
-- which may never end. Few rows.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox_attempt (
  consumer   VARCHAR(64) COLLATE "C" NOT NULL,
  record_key BYTEA NOT NULL,
  round      INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  first_at   BIGINT NOT NULL,
  last_at    BIGINT NOT NULL,
  CONSTRAINT {{prefix}}trans_inbox_attempt_pkey PRIMARY KEY (consumer, record_key)
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_inbox_attempt_last ON {{prefix}}trans_inbox_attempt (last_at);
