-- +goose Up
-- The instant before which no send may begin.
-- INSTANT, or refused: the table is never copied or locked under traffic. A second run finds the
-- columns: MySQL has no ADD COLUMN IF NOT EXISTS, and the statement is applied as a whole or not at all.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_message
    ADD COLUMN not_before BIGINT NOT NULL DEFAULT 0, ALGORITHM=INSTANT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_message' AND column_name = 'not_before'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- The epoch that an edit made: an ack of an earlier one comes too late.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_message_event
    ADD COLUMN epoch INT NOT NULL DEFAULT 0, ALGORITHM=INSTANT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_message_event' AND column_name = 'epoch'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
