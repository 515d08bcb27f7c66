-- +goose Up
-- Alerts that are owed for READY rows: few, and the big table gets no further index.
CREATE TABLE IF NOT EXISTS {{prefix}}trans_message_alert (
  row_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch      INT NOT NULL,
  service    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  due_at     BIGINT NOT NULL,
  claimed_by VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  PRIMARY KEY (row_id, kind, epoch),
  KEY {{prefix}}trans_message_alert_due (due_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- INSTANT, or refused: the table is never copied or locked under traffic. A second run finds the
-- columns: MySQL has no ADD COLUMN IF NOT EXISTS, and the statement is applied as a whole or not at all.
SET @ddl = (
  SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE {{prefix}}trans_message
    ADD COLUMN first_failed_at BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN lone_claims INT NOT NULL DEFAULT 0,
    ADD COLUMN lone_since BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN closes INT NOT NULL DEFAULT 0,
    ADD COLUMN closes_since BIGINT NOT NULL DEFAULT 0, ALGORITHM=INSTANT')
  FROM information_schema.columns
  WHERE table_schema = DATABASE() AND table_name = '{{prefix}}trans_message' AND column_name = 'first_failed_at'
);
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
