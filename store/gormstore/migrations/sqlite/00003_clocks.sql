-- +goose Up
-- Alerts that are owed for READY rows: few, and the big table gets no further index.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_message_alert (
  row_id     TEXT COLLATE BINARY NOT NULL,
  kind       TEXT COLLATE BINARY NOT NULL,
  epoch      INTEGER NOT NULL,
  service    TEXT COLLATE BINARY NOT NULL,
  due_at     INTEGER NOT NULL,
  claimed_by TEXT COLLATE BINARY NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  PRIMARY KEY (row_id, kind, epoch)
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_alert_due ON {{prefix}}trans_message_alert (due_at);
ALTER TABLE {{prefix}}trans_message ADD COLUMN first_failed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_message ADD COLUMN lone_claims INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_message ADD COLUMN lone_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_message ADD COLUMN closes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_message ADD COLUMN closes_since INTEGER NOT NULL DEFAULT 0;
