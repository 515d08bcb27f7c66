-- +goose Up
-- What consumers have dealt with: written first in the transaction of the effect.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox (
  consumer   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  record_key VARBINARY(255) NOT NULL,
  mark       BIGINT NOT NULL,
  done_at    BIGINT NOT NULL,
  PRIMARY KEY (consumer, record_key),
  KEY {{prefix}}trans_inbox_done (done_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Deliveries of messages that came back without an answer: outside of the effect's transaction,
-- which may never end. Few rows.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_inbox_attempt (
  consumer   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  record_key VARBINARY(255) NOT NULL,
  round      INT NOT NULL,
  attempts   INT NOT NULL,
  first_at   BIGINT NOT NULL,
  last_at    BIGINT NOT NULL,
  PRIMARY KEY (consumer, record_key),
  KEY {{prefix}}trans_inbox_attempt_last (last_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
