package publisher

// Joined makes one observer of several.
var Joined = joined
