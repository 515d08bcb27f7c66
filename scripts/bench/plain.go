package main

import (
	"context"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/internal/bench"
)

// plain is gorm, one message at a time, as it is often written by hand: its settings are
// gorm's defaults. Callers share four channels and wait for their own confirms.
type plain struct {
	*outbox
	gorm *gorm.DB
}

// gormOutbox is its model.
type gormOutbox struct {
	ID         string `gorm:"primaryKey;size:36"`
	Exchange   string
	RoutingKey string
	Payload    []byte
	CreatedAt  int64
}

// TableName implements gorm's Tabler.
func (gormOutbox) TableName() string { return "gorm_outbox" }

func openPlain(ctx context.Context, w *bench.World) (contestant, error) {
	o, err := openOutbox(ctx, w, "gorm_outbox", 4)
	if err != nil {
		return nil, err
	}
	var dialector gorm.Dialector
	switch o.kind {
	case "postgres":
		dialector = postgres.New(postgres.Config{Conn: o.db})
	case "sqlite":
		dialector = &sqlite.Dialector{Conn: o.db}
	default:
		dialector = mysql.New(mysql.Config{Conn: o.db})
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	return &plain{outbox: o, gorm: db}, nil
}

func (*plain) name() string { return "gorm, one by one" }

func (p *plain) publish(ctx context.Context, callers, n int) (float64, error) {
	ids := newIDs(n)
	p.sc.Rest(ctx)
	start := time.Now()
	err := each(callers, n, func(caller, i int) error {
		row := gormOutbox{
			ID: ids[i], Exchange: p.w.Broker.Exchange, RoutingKey: bench.Key, Payload: p.w.Body,
			CreatedAt: time.Now().UnixMilli(),
		}
		if err := p.gorm.WithContext(ctx).Create(&row).Error; err != nil {
			return err
		}
		if err := p.send(ctx, p.lanes[caller%len(p.lanes)], row.ID, row.Payload); err != nil {
			return err
		}
		return p.gorm.WithContext(ctx).Delete(&row).Error
	})
	r := rate(n, start)
	if err != nil {
		return 0, err
	}
	return p.finish(ctx, r, ids)
}

func (p *plain) drain(ctx context.Context, n int) (float64, error) {
	ids, err := p.fill(ctx, n)
	if err != nil {
		return 0, err
	}
	p.sc.Rest(ctx)
	start := time.Now()
	for {
		var rows []gormOutbox
		if err := p.gorm.WithContext(ctx).Order("id").Limit(100).Find(&rows).Error; err != nil {
			return 0, err
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			if err := p.send(ctx, p.lanes[0], rows[i].ID, rows[i].Payload); err != nil {
				return 0, err
			}
			if err := p.gorm.WithContext(ctx).Delete(&rows[i]).Error; err != nil {
				return 0, err
			}
		}
	}
	return p.finish(ctx, rate(n, start), ids)
}
