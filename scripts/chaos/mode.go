package main

// The stores.
const (
	storeMySQL    = "mysql"
	storePostgres = "postgres"
	storeSQLite   = "sqlite"
)

// The modes of a run: what is not one server but several. Each has kinds of fault of its own.
const (
	modeCluster  = "cluster"
	modeFailover = "failover"
	modeGalera   = "galera"
)

// modes are the flags, with what they say.
func modes() map[string]string {
	return map[string]string{
		modeCluster:  "three RabbitMQ nodes and quorum queues; needs a network namespace, which chaos.sh makes",
		modeFailover: "a primary and a replica behind an address that moves, of the store and of Redis",
		modeGalera:   "three MariaDB Galera nodes, written to directly and through a balancer",
	}
}
