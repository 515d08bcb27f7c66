-- +goose Up
ALTER TABLE {{prefix}}trans_message ADD COLUMN replayed_at INTEGER NOT NULL DEFAULT 0;
