-- +goose Up
-- The instant before which no send may begin. INSTANT, or refused: the table is never copied or locked under traffic.
ALTER TABLE {{prefix}}trans_message
  ADD COLUMN /*M! IF NOT EXISTS */ not_before BIGINT NOT NULL DEFAULT 0, ALGORITHM=INSTANT;
