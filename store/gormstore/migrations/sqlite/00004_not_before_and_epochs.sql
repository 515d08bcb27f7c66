-- +goose Up
-- The instant before which no send may begin.
ALTER TABLE {{prefix}}trans_message ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
-- The epoch that an edit made: an ack of an earlier one comes too late.
ALTER TABLE {{prefix}}trans_message_event ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
