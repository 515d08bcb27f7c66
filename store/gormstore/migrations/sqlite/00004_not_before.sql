-- +goose Up
-- The instant before which no send may begin.
ALTER TABLE {{prefix}}trans_message ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;
