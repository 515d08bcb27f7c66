-- +goose Up
ALTER TABLE {{prefix}}trans_message ADD COLUMN IF NOT EXISTS replayed_at BIGINT NOT NULL DEFAULT 0;
