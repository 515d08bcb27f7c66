-- +goose Up
CREATE TABLE IF NOT EXISTS {{prefix}}trans_message (
  id              TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
  service         TEXT COLLATE BINARY NOT NULL,
  status          TEXT COLLATE BINARY NOT NULL CHECK (status IN ('READY', 'DEAD')),
  next_attempt_at INTEGER NOT NULL,
  attempts        INTEGER NOT NULL DEFAULT 0,
  failures        INTEGER NOT NULL DEFAULT 0,
  claims          INTEGER NOT NULL DEFAULT 0,
  version         INTEGER NOT NULL DEFAULT 0,
  epoch           INTEGER NOT NULL DEFAULT 0,
  message_key     TEXT COLLATE BINARY NOT NULL DEFAULT '',
  exchange        TEXT COLLATE BINARY NOT NULL,
  routing_key     TEXT COLLATE BINARY NOT NULL,
  properties      BLOB NOT NULL,
  size            INTEGER NOT NULL,
  last_code       TEXT COLLATE BINARY NOT NULL DEFAULT '',
  last_error      TEXT COLLATE BINARY NOT NULL DEFAULT '',
  claimed_by      TEXT COLLATE BINARY NOT NULL DEFAULT '',
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  -- Last, so that reading the other columns of a large row stays on its first page.
  payload         BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_due
  ON {{prefix}}trans_message (service, status, next_attempt_at, id, created_at);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_key ON {{prefix}}trans_message (message_key);

CREATE TABLE IF NOT EXISTS {{prefix}}trans_message_event (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  row_id   TEXT COLLATE BINARY NOT NULL,
  at       INTEGER NOT NULL,
  kind     TEXT COLLATE BINARY NOT NULL,
  code     TEXT COLLATE BINARY NOT NULL DEFAULT '',
  text     TEXT COLLATE BINARY NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  instance TEXT COLLATE BINARY NOT NULL DEFAULT '',
  actor    TEXT COLLATE BINARY NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_event_row ON {{prefix}}trans_message_event (row_id, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_message_event_at ON {{prefix}}trans_message_event (at);

CREATE TABLE IF NOT EXISTS {{prefix}}trans_dead_letter (
  id          TEXT COLLATE BINARY NOT NULL PRIMARY KEY,
  message_id  BLOB NULL,
  queue       TEXT COLLATE BINARY NOT NULL,
  reason      TEXT COLLATE BINARY NOT NULL,
  count       INTEGER NOT NULL DEFAULT 1,
  exchange    TEXT COLLATE BINARY NOT NULL,
  routing_key TEXT COLLATE BINARY NOT NULL,
  properties  BLOB NOT NULL,
  size        INTEGER NOT NULL,
  first_at    INTEGER NOT NULL,
  last_at     INTEGER NOT NULL,
  replays     INTEGER NOT NULL DEFAULT 0,
  replayed_at INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  payload     BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_queue ON {{prefix}}trans_dead_letter (queue, created_at, id);
CREATE INDEX IF NOT EXISTS {{prefix}}trans_dead_letter_message ON {{prefix}}trans_dead_letter (message_id);
