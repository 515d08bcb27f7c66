-- +goose Up
-- INSTANT, or refused: the table is never copied or locked under traffic.
ALTER TABLE {{prefix}}trans_message
  ADD COLUMN /*M! IF NOT EXISTS */ replayed_at BIGINT NOT NULL DEFAULT 0, ALGORITHM=INSTANT;
