-- +goose Up
-- The instant before which no send may begin.
ALTER TABLE {{prefix}}trans_message ADD COLUMN IF NOT EXISTS not_before BIGINT NOT NULL DEFAULT 0;
