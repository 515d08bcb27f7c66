package model

import "time"

// None is given to a setting to have none of what it describes: no jitter, no least age, no limit, no
// retention. A setting's zero value is its default, which for some is None. On the command line, where
// each default is shown, none is 0.
const None = -1

// LeaseMargin is kept between the last moment at which a send may start, plus its confirm timeout, and
// the end of the row's lease. It is for what a process cannot see: a pause, a slow write.
const LeaseMargin = 3 * time.Second
