-- +goose Up
CREATE TABLE IF NOT EXISTS {{prefix}}trans_message (
  id              CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  service         VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  status          VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  next_attempt_at BIGINT NOT NULL,
  attempts        INT NOT NULL DEFAULT 0,
  failures        INT NOT NULL DEFAULT 0,
  claims          INT NOT NULL DEFAULT 0,
  version         INT NOT NULL DEFAULT 0,
  epoch           INT NOT NULL DEFAULT 0,
  message_key     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  exchange        VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  routing_key     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  properties      MEDIUMBLOB NOT NULL,
  payload         LONGBLOB NOT NULL,
  size            INT NOT NULL,
  last_code       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  last_error      VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  claimed_by      CHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  created_at      BIGINT NOT NULL,
  updated_at      BIGINT NOT NULL,
  PRIMARY KEY (id),
  KEY {{prefix}}trans_message_due (service, status, next_attempt_at, id, created_at),
  KEY {{prefix}}trans_message_key (message_key),
  CONSTRAINT {{prefix}}trans_message_status CHECK (status IN ('READY', 'DEAD'))
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {{prefix}}trans_message_event (
  id       BIGINT NOT NULL AUTO_INCREMENT,
  row_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  at       BIGINT NOT NULL,
  kind     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  code     VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  text     VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  attempts INT NOT NULL DEFAULT 0,
  instance VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  actor    VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
  PRIMARY KEY (id),
  KEY {{prefix}}trans_message_event_row (row_id, id),
  KEY {{prefix}}trans_message_event_at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {{prefix}}trans_dead_letter (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  message_id  VARBINARY(255) NULL,
  queue       VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reason      VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  count       BIGINT NOT NULL DEFAULT 1,
  exchange    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  routing_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  properties  MEDIUMBLOB NOT NULL,
  payload     LONGBLOB NOT NULL,
  size        INT NOT NULL,
  first_at    BIGINT NOT NULL,
  last_at     BIGINT NOT NULL,
  replays     INT NOT NULL DEFAULT 0,
  replayed_at BIGINT NOT NULL DEFAULT 0,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL,
  PRIMARY KEY (id),
  KEY {{prefix}}trans_dead_letter_queue (queue, created_at, id),
  KEY {{prefix}}trans_dead_letter_message (message_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
