package metrics

// What an observer counts is tested by calling it: the packages that call it test when they do.
var (
	PublisherObserver   = (*Metrics).publisherObserver
	SenderObserver      = (*Metrics).senderObserver
	CompensatorObserver = (*Metrics).compensatorObserver
)
