-- +goose Up
-- Dead letters of consumers. Names are kept as bytes, as the broker has them; queue, exchange and routing_key are the
-- same for people to read. parent and replay_id are for following one message: what it was sent back from, and as what.
-- original_properties and original_payload are the content as it came, where it was edited.
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN status TEXT COLLATE BINARY NOT NULL DEFAULT 'OPEN';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN queue_name BLOB NOT NULL DEFAULT x'';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN exchange_name BLOB NOT NULL DEFAULT x'';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN key_name BLOB NOT NULL DEFAULT x'';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN cause TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN error TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN service TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN message_key TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN parent TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN replay_id TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN claimed_by TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN alert_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN unreplayable TEXT COLLATE BINARY NOT NULL DEFAULT '';
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN original_properties BLOB NULL;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN original_payload BLOB NULL;
ALTER TABLE {{prefix}}trans_dead_letter ADD COLUMN erased_at INTEGER NOT NULL DEFAULT 0;
-- Groups and acts go by the first, alerts by the second, a lineage by the third.
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_status
  ON {{prefix}}trans_dead_letter (status, queue_name, cause, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_alert ON {{prefix}}trans_dead_letter (alert_at, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_parent ON {{prefix}}trans_dead_letter (parent);
