package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// How often a log that is followed is looked at.
const followEvery = 100 * time.Millisecond

func (a *Agent) containerLogs(ctx context.Context, namespace, pod, name string, opts api.ContainerLogOpts) (io.ReadCloser, error) {
	unit, err := a.unit(namespace, pod, name)
	if err != nil {
		return nil, err
	}
	unit.worker.mutex.Lock()
	runs := unit.runs
	unit.worker.mutex.Unlock()
	path := unit.logPath(-1)
	if opts.Previous {
		if runs < 2 {
			return nil, errdefs.NotFoundf("previous terminated container %q in pod %q not found", name, pod)
		}
		path = unit.logPath(runs - 2)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errdefs.NotFoundf("container %q in pod %q is waiting to start", name, pod)
	}
	if err != nil {
		return nil, err
	}
	if opts.Tail > 0 {
		if err := seekToTail(file, opts.Tail); err != nil {
			_ = file.Close()
			return nil, err
		}
	}
	var reader io.Reader = file
	if opts.Follow && !opts.Previous {
		reader = &follower{ctx: ctx, file: file, ended: func() bool {
			unit.worker.mutex.Lock()
			defer unit.worker.mutex.Unlock()
			return unit.process == nil || unit.runs != runs
		}}
	}
	if opts.LimitBytes > 0 {
		reader = io.LimitReader(reader, int64(opts.LimitBytes))
	}
	return struct {
		io.Reader
		io.Closer
	}{reader, file}, nil
}

// follower reads a file on and on until its writer has ended.
type follower struct {
	ctx   context.Context
	file  *os.File
	ended func() bool
}

func (f *follower) Read(p []byte) (int, error) {
	for {
		// Asked before, so that what was written last is read.
		ended := f.ended()
		n, err := f.file.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if ended || !pause(f.ctx, followEvery) {
			return 0, io.EOF
		}
	}
}

// seekToTail moves to the first of the last lines.
func seekToTail(file *os.File, lines int) error {
	const block = 64 << 10
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the tail of a log: %w", err)
	}
	buffer := make([]byte, block)
	// The last line's own end does not count.
	for position, stop := end, end-1; position > 0; {
		start := max(position-block, 0)
		part := buffer[:position-start]
		if _, err := file.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("find the tail of a log: %w", err)
		}
		for {
			at := bytes.LastIndexByte(part, '\n')
			if at < 0 {
				break
			}
			part = part[:at]
			if start+int64(at) == stop {
				continue
			}
			if lines--; lines == 0 {
				_, err := file.Seek(start+int64(at)+1, io.SeekStart)
				return err
			}
		}
		position = start
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}
