-- +goose Up
-- INSTANT, or refused: the table is never copied or locked under traffic. A second run finds the
-- columns: MySQL has no ADD COLUMN IF NOT EXISTS, and the statement is applied as a whole or not at all.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_message
    ADD COLUMN replayed_at BIGINT NOT NULL DEFAULT 0, ALGORITHM=INSTANT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_message' AND column_name = 'replayed_at'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
