package topology

// For the tests of what only rules call.
var (
	Matches       = matches
	TopicMatches  = topicMatches
	TopicsOverlap = topicsOverlap
)

// Setting is a queue's setting in force.
func (b *Broker) Setting(queue, key string) any { return b.queueSetting(b.Queues[queue], key) }
