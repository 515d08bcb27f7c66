package gormstore

import (
	"slices"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// inKeys returns a condition that holds for the ids, each only in its epoch, and args with its
// arguments appended; alias is "m." or nothing. The ids that one publisher made share an epoch, and
// cost no more than a condition on ids alone; others are compared as pairs of id and epoch. In both
// forms the condition on the ids is what goes by the primary key.
func (d *dialect) inKeys(alias string, keys []model.RowKey, args ...any) (string, []any) {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	cond, args := d.in(ids, args...)
	cond = alias + "id " + cond + " AND "
	if !slices.ContainsFunc(keys, func(k model.RowKey) bool { return k.Epoch != keys[0].Epoch }) {
		return cond + alias + "epoch = ?", append(args, keys[0].Epoch)
	}
	cond += "(" + alias + "id, " + alias + "epoch) IN ("
	if d.dollar {
		epochs := make([]int32, len(keys))
		for i, k := range keys {
			epochs[i] = int32(k.Epoch)
		}
		return cond + "SELECT * FROM unnest(?::text[], ?::int[]))", append(args, ids, epochs)
	}
	if d.name == dialectSQLite {
		cond += "VALUES "
	}
	for _, k := range keys {
		args = append(args, k.ID, k.Epoch)
	}
	return cond + strings.Repeat("(?,?),", len(keys)-1) + "(?,?))", args
}
