package model

// HeaderFrameSize lets the external tests compare the computed size with real frames.
func HeaderFrameSize(m *Message) int { return headerFrameSize(m) }

// The bounds that tests build messages against.
const (
	FrameHeadroom = frameHeadroom
	MaxDepth      = maxDepth
	MaxElements   = maxElements
)
