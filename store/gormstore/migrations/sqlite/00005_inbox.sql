-- +goose Up
-- What consumers have dealt with: written first in the transaction of the effect.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox (
  consumer   TEXT COLLATE BINARY NOT NULL,
  record_key BLOB NOT NULL,
  mark       INTEGER NOT NULL,
  done_at    INTEGER NOT NULL,
  PRIMARY KEY (consumer, record_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {{prefix}}trans_inbox_done ON {{prefix}}trans_inbox (done_at);

-- Deliveries of messages that came back without an answer: outside of the effect's transaction,
-- which may never end. Few rows.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox_attempt (
  consumer   TEXT COLLATE BINARY NOT NULL,
  record_key BLOB NOT NULL,
  round      INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  first_at   INTEGER NOT NULL,
  last_at    INTEGER NOT NULL,
  PRIMARY KEY (consumer, record_key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {{prefix}}trans_inbox_attempt_last ON {{prefix}}trans_inbox_attempt (last_at);
