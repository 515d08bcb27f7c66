-- +goose Up
-- Alerts that are owed for READY rows: few, and the big table gets no further index.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_message_alert (
  row_id     VARCHAR(36) COLLATE "C" NOT NULL,
  kind       VARCHAR(16) COLLATE "C" NOT NULL,
  epoch      INTEGER NOT NULL,
  service    VARCHAR(64) COLLATE "C" NOT NULL,
  due_at     BIGINT NOT NULL,
  claimed_by VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  CONSTRAINT {{prefix}}trans_message_alert_pkey PRIMARY KEY (row_id, kind, epoch)
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_alert_due ON {{prefix}}trans_message_alert (due_at);
ALTER TABLE {{prefix}}trans_message
  ADD COLUMN IF NOT EXISTS first_failed_at BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS lone_claims INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS lone_since BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS closes INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS closes_since BIGINT NOT NULL DEFAULT 0;
