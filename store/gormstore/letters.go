package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/transmsg/transmsg/model"
)

const (
	letterParams = 26
	// letterHead is what a listing reads of a dead letter, without properties and body.
	letterHead = "id, message_id, CASE WHEN message_id IS NULL THEN 0 ELSE 1 END, queue_name, exchange_name, " +
		"key_name, status, cause, error, count, attempts, service, message_key, size, first_at, last_at, replays, " +
		"parent, version, epoch, replayed_at, replay_id, claimed_by, " +
		"alert_at, created_at, updated_at, unreplayable, erased_at, " +
		"CASE WHEN original_properties IS NULL THEN 0 ELSE 1 END"
	letterColumns = letterHead + ", properties, payload, original_properties, original_payload"
	// letterInsertColumns are those of appendLetterArgs.
	letterInsertColumns = "id, message_id, queue, exchange, routing_key, queue_name, exchange_name, key_name, " +
		"status, reason, cause, error, count, attempts, service, message_key, properties, payload, size, " +
		"first_at, last_at, replays, parent, epoch, unreplayable, claimed_by"
)

// Collect stores dead letters and passes over those that are there: a rejection is stored once. Where its
// id holds another message, which says that the id was given twice, the letter is stored under one of its own. The
// times of storing are the database's; Version and the clocks are its own.
//
// The error is an [*model.InvalidError] where a letter, at its Index, is above a statement's size: nothing is stored
// then. It also is one where a single letter was given, and the server refuses it for a value in it.
func (s *Store) Collect(ctx context.Context, letters []model.DeadLetter) error {
	for i := range letters {
		if letters[i].Size > s.maxBody {
			return &model.InvalidError{Field: "dead letter", Index: i, Reason: fmt.Sprintf("has %d bytes, above %d, a "+
				"quarter of the server's max_allowed_packet", letters[i].Size, s.maxBody)}
		}
	}
	list := onceEach(letters)
	for tries := 0; len(list) > 0; tries++ {
		if tries > 2*len(letters) { // each turn stores letters, or gives them other ids
			return errors.New("gormstore: collect: ids of dead letters hold other messages, and those made of them too")
		}
		part := list[:s.letterChunk(list)]
		others, err := s.collectPart(ctx, part)
		if err != nil && s.d.classify(err) == classData && len(letters) == 1 {
			return &model.InvalidError{Field: "dead letter", Reason: "is refused by the database: " + err.Error()}
		}
		if err != nil {
			return s.wrap("collect", err)
		}
		list = append(others, list[len(part):]...)
	}
	return nil
}

// letterChunk is how many of the letters one statement takes.
func (s *Store) letterChunk(list []model.DeadLetter) int {
	n, bytes := 0, 0
	for n < len(list) && (n+1)*letterParams <= min(s.d.maxParams, 10_000) {
		if bytes += list[n].Size; n > 0 && bytes > s.batchBytes() {
			break
		}
		n++
	}
	return n
}

// collectPart stores what one statement takes, and returns those letters whose id holds another message, with new ids.
func (s *Store) collectPart(ctx context.Context, part []model.DeadLetter) (others []model.DeadLetter, err error) {
	err = s.retryTx(ctx, func(tx dbTx) (err error) {
		query, args := s.letterInsert(part)
		stored, err := affected(tx.ExecContext(ctx, query, args...))
		exists := s.d.name == dialectMySQL && s.d.classify(err) == classDuplicate // the statement alone is undone
		if !exists && (err != nil || stored == len(part)) {
			return err
		}
		var missing []model.DeadLetter
		if others, missing, err = s.compareLetters(ctx, tx, part); err != nil || len(missing) == 0 || !exists {
			return err
		}
		query, args = s.letterInsert(missing)
		_, err = tx.ExecContext(ctx, query, args...)
		return err
	})
	return others, err
}

// compareLetters returns those of the letters whose id holds another message, with new ids, and those whose id holds
// none. It reads in the transaction that wrote: what it sees is what the INSERT met.
func (s *Store) compareLetters(
	ctx context.Context, tx dbTx, part []model.DeadLetter,
) (others, missing []model.DeadLetter, err error) {
	ids := make([]string, len(part))
	for i := range part {
		ids[i] = part[i].ID
	}
	cond, args := s.d.in(sortedIDs(ids))
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+letterColumns+" FROM "+s.sql.letters+
		" WHERE id "+cond), args...)
	have, err := collect(rows, err, scanLetter)
	if err != nil {
		return nil, nil, err
	}
	byID := make(map[string]*model.DeadLetter, len(have))
	for i := range have {
		byID[have[i].ID] = &have[i]
	}
	for i := range part {
		switch h := byID[part[i].ID]; {
		case h == nil:
			missing = append(missing, part[i])
		case !model.SameLetter(h, &part[i]):
			others = append(others, part[i].Again())
		}
	}
	return others, missing, nil
}

// onceEach gives each letter an id of its own, and leaves out those that are there twice. It sorts by id.
func onceEach(letters []model.DeadLetter) []model.DeadLetter {
	out := make([]model.DeadLetter, 0, len(letters))
	byID := make(map[string]*model.DeadLetter, len(letters))
	for i := range letters {
		l := letters[i]
		for {
			have := byID[l.ID]
			if have == nil {
				byID[l.ID] = &letters[i]
				out = append(out, l)
				break
			}
			if model.SameLetter(have, &l) {
				break
			}
			l = l.Again()
		}
	}
	slices.SortFunc(out, func(a, b model.DeadLetter) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// letterInsert is the INSERT of letters. On PostgreSQL, where an error would abort the transaction, and on SQLite it
// passes over ids that are there; on MySQL IGNORE would hide other errors too.
func (s *Store) letterInsert(part []model.DeadLetter) (query string, args []any) {
	tuple := "(" + strings.Repeat("?,", letterParams) + "0," + s.d.now + "," + s.d.now + "," + s.d.now + "),"
	args = make([]any, 0, letterParams*len(part))
	for i := range part {
		args = appendLetterArgs(args, &part[i])
	}
	conflict := ""
	if s.d.name != dialectMySQL {
		conflict = " ON CONFLICT (id) DO NOTHING"
	}
	query = "INSERT INTO " + s.sql.letters + " (" + letterInsertColumns +
		", version, alert_at, created_at, updated_at) " +
		"VALUES " + strings.TrimSuffix(strings.Repeat(tuple, len(part)), ",") + conflict
	return s.d.bind(query), args
}

func appendLetterArgs(args []any, l *model.DeadLetter) []any {
	var wireID any
	if l.WireID != nil {
		wireID = blob(l.WireID)
	}
	return append(args, l.ID, wireID, model.Readable(l.Queue), model.Readable(l.Exchange), model.Readable(l.RoutingKey),
		blob([]byte(l.Queue)), blob([]byte(l.Exchange)), blob([]byte(l.RoutingKey)), string(l.Status), l.Cause, l.Cause,
		l.Text, l.Count, l.Attempts, l.Service, l.Key, blob(l.Properties), blob(l.Payload), l.Size, l.FirstAt, l.LastAt,
		l.Replays, l.Parent, l.Epoch, l.Unreplayable, "")
}

// scanLetterHead reads letterHead, and more where the query asks for more.
func scanLetterHead(r scanner, l *model.DeadLetter, more ...any) error {
	var queue, exchange, key []byte
	var hasID, edited bool
	err := r.Scan(append([]any{
		&l.ID, &l.WireID, &hasID, &queue, &exchange, &key, &l.Status, &l.Cause, &l.Text, &l.Count, &l.Attempts,
		&l.Service, &l.Key, &l.Size, &l.FirstAt, &l.LastAt, &l.Replays, &l.Parent, &l.Version, &l.Epoch, &l.ReplayedAt,
		&l.ReplayID,
		&l.ClaimedBy, &l.AlertAt, &l.CreatedAt, &l.UpdatedAt, &l.Unreplayable, &l.ErasedAt,
		&edited,
	}, more...)...)
	if edited {
		l.Original = &model.LetterContent{}
	}
	if hasID && l.WireID == nil { // SQLite's driver reads an empty one so
		l.WireID = []byte{}
	}
	l.Queue, l.Exchange, l.RoutingKey = string(queue), string(exchange), string(key)
	return err
}

// scanLetterOnly reads letterHead.
func scanLetterOnly(r scanner, l *model.DeadLetter) error { return scanLetterHead(r, l) }

// scanLetter reads letterColumns.
func scanLetter(r scanner, l *model.DeadLetter) error {
	var properties, oldProperties, oldPayload []byte
	err := scanLetterHead(r, l, &properties, &l.Payload, &oldProperties, &oldPayload)
	l.Properties = properties
	if l.Original != nil {
		l.Original = &model.LetterContent{Properties: oldProperties, Payload: oldPayload}
	}
	return err
}

// Letter returns one dead letter whole, its history, oldest first, and those that came of its replays, newest first.
// [model.ErrNotFound] where there is none; the history is returned all the same.
func (s *Store) Letter(ctx context.Context, id string) (
	l model.DeadLetter, events []model.Event, children []model.DeadLetter, err error,
) {
	err = scanLetter(s.db.QueryRowContext(ctx, s.d.bind("SELECT "+letterColumns+" FROM "+s.sql.letters+
		" WHERE id = ?"), id), &l)
	gone := errors.Is(err, sql.ErrNoRows)
	if err != nil && !gone {
		return l, nil, nil, s.wrap("show dead letter", err)
	}
	if events, err = s.eventsOf(ctx, id); err == nil {
		children, err = s.letterHeads(ctx, "parent = ? ORDER BY created_at DESC, id LIMIT 100", []any{id})
	}
	if err == nil && !gone {
		one := []model.DeadLetter{l}
		err = s.addBecame(ctx, one)
		l.Became = one[0].Became
	}
	if err == nil && gone {
		err = fmt.Errorf("id %.80q: %w", id, model.ErrNotFound)
	}
	return l, events, children, s.wrap("show dead letter", err)
}
