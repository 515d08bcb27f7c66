-- +goose Up
-- Dead letters of consumers. Names are kept as bytes, as the broker has them; queue, exchange and routing_key are the
-- same for people to read. parent and replay_id are for following one message: what it was sent back from, and as what.
-- original_properties and original_payload are the content as it came, where it was edited.
ALTER TABLE {{prefix}}trans_dead_letter
  ADD COLUMN IF NOT EXISTS status VARCHAR(16) COLLATE "C" NOT NULL DEFAULT 'OPEN',
  ADD COLUMN IF NOT EXISTS queue_name BYTEA NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS exchange_name BYTEA NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS key_name BYTEA NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS cause VARCHAR(32) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS error VARCHAR(1024) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS attempts INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS service VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS message_key VARCHAR(255) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS version INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS epoch INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS parent VARCHAR(36) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS replay_id VARCHAR(36) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS claimed_by VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS alert_at BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS unreplayable VARCHAR(1024) COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS original_properties BYTEA NULL,
  ADD COLUMN IF NOT EXISTS original_payload BYTEA NULL,
  ADD COLUMN IF NOT EXISTS erased_at BIGINT NOT NULL DEFAULT 0;
-- Groups and acts go by the first, alerts by the second, a lineage by the third.
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_status
  ON {{prefix}}trans_dead_letter (status, queue_name, cause, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_alert ON {{prefix}}trans_dead_letter (alert_at, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_parent ON {{prefix}}trans_dead_letter (parent);
