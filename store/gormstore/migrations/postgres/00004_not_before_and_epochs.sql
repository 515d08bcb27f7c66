-- +goose Up
-- The instant before which no send may begin.
ALTER TABLE {{prefix}}trans_message ADD COLUMN IF NOT EXISTS not_before BIGINT NOT NULL DEFAULT 0;
-- The epoch that an edit made: an ack of an earlier one comes too late.
ALTER TABLE {{prefix}}trans_message_event ADD COLUMN IF NOT EXISTS epoch INTEGER NOT NULL DEFAULT 0;
