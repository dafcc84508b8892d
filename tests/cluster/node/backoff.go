package node

import "time"

const (
	firstBackoff   = time.Second
	longestBackoff = 10 * time.Second
	// A container that ran for this long is forgiven its earlier ends.
	forgivenAfter = time.Minute
)

// backoff is the delay before a container is started again: none at first, then one that doubles. Kubernetes' own goes
// from ten seconds to five minutes, which no test would wait for.
type backoff struct {
	ends int
}

func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= forgivenAfter {
		b.ends = 0
	}
	b.ends++
	if b.ends == 1 && ran > 0 {
		return 0
	}
	delay := firstBackoff
	for range b.ends - 2 {
		delay = min(2*delay, longestBackoff)
	}
	return delay
}
