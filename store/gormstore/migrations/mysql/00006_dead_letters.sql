-- +goose Up
-- Dead letters of consumers. Names are kept as bytes, as the broker has them; queue, exchange and routing_key are the
-- same for people to read. parent and replay_id are for following one message: what it was sent back from, and as what.
-- original_properties and original_payload are the content as it came, where it was edited.
-- INSTANT, or refused: the table is never copied or locked under traffic. A second run finds the
-- columns: MySQL has no ADD COLUMN IF NOT EXISTS, and the statement is applied as a whole or not at all.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_dead_letter
    ADD COLUMN status VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''OPEN'',
    ADD COLUMN queue_name VARBINARY(255) NOT NULL DEFAULT '''',
    ADD COLUMN exchange_name VARBINARY(255) NOT NULL DEFAULT '''',
    ADD COLUMN key_name VARBINARY(255) NOT NULL DEFAULT '''',
    ADD COLUMN cause VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN error VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN attempts INT NOT NULL DEFAULT 0,
    ADD COLUMN service VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN message_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN version INT NOT NULL DEFAULT 0,
    ADD COLUMN epoch INT NOT NULL DEFAULT 0,
    ADD COLUMN parent VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''',
    ADD COLUMN replay_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''',
    ADD COLUMN claimed_by VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN alert_at BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN unreplayable VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '''',
    ADD COLUMN original_properties MEDIUMBLOB NULL,
    ADD COLUMN original_payload LONGBLOB NULL,
    ADD COLUMN erased_at BIGINT NOT NULL DEFAULT 0,
    ALGORITHM=INSTANT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_dead_letter' AND column_name = 'queue_name'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- Groups and acts go by the first, alerts by the second, a lineage by the third. Built in place.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_dead_letter
    ADD KEY {{prefix}}trans_dead_letter_status (status, queue_name, cause, id),
    ADD KEY {{prefix}}trans_dead_letter_alert (alert_at, id),
    ADD KEY {{prefix}}trans_dead_letter_parent (parent), ALGORITHM=INPLACE, LOCK=NONE')
  FROM information_schema.statistics
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_dead_letter'
    AND index_name = '{{prefix}}trans_dead_letter_parent'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
