// Package image is the table that gives the name of an image a meaning without a container engine: which of the
// machine's files it has, and what it runs.
package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Image is one entry of the table.
type Image struct {
	Entrypoint []string `json:"entrypoint"`
	Args       []string `json:"args"`
	// Env is what the image sets, before the pod's own.
	Env map[string]string `json:"env"`
	// Binds are the files and folders of the machine by their path in the container, not writable there.
	Binds map[string]string `json:"binds"`
	// User and Group are who runs it where the pod does not say; Group is User's number by default.
	User       int    `json:"user"`
	Group      *int   `json:"group"`
	WorkingDir string `json:"workingDir"`
}

// Table is all images by name.
type Table struct {
	images map[string]Image
	path   string
}

// Load reads the table of a file and adds the images that are built in, which an entry of the same name replaces. An
// empty path means those alone.
func Load(path string, builtIn map[string]Image) (*Table, error) {
	table := &Table{images: map[string]Image{}, path: path}
	for name, image := range builtIn {
		table.images[name] = image
	}
	if path == "" {
		return table, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the image table: %w", err)
	}
	images, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("image table %s: %w", path, err)
	}
	for name, image := range images {
		table.images[name] = image
	}
	return table, nil
}

func parse(content []byte) (map[string]Image, error) {
	decoder := json.NewDecoder(strings.NewReader(string(content)))
	// A mistyped field would be found much later, in a pod that behaves oddly.
	decoder.DisallowUnknownFields()
	images := map[string]Image{}
	if err := decoder.Decode(&images); err != nil {
		return nil, err
	}
	var faults []error
	for _, name := range sortedKeys(images) {
		if err := check(images[name]); err != nil {
			faults = append(faults, fmt.Errorf("image %q: %w", name, err))
		}
	}
	return images, errors.Join(faults...)
}

func check(image Image) error {
	if len(image.Entrypoint) == 0 && len(image.Args) == 0 {
		return errors.New("it has no entrypoint")
	}
	for target, source := range image.Binds {
		if !filepath.IsAbs(target) || !filepath.IsAbs(source) {
			return fmt.Errorf("bind %q: %q: both paths must be absolute", target, source)
		}
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("bind %q: %w", target, err)
		}
	}
	return nil
}

// Find looks the name up as it is, then without its digest, then without its tag.
func (t *Table) Find(name string) (Image, error) {
	if image, ok := t.images[name]; ok {
		return image, nil
	}
	bare, _, _ := strings.Cut(name, "@")
	if image, ok := t.images[bare]; ok {
		return image, nil
	}
	if colon := strings.LastIndexByte(bare, ':'); colon > strings.LastIndexByte(bare, '/') {
		bare = bare[:colon]
	}
	if image, ok := t.images[bare]; ok {
		return image, nil
	}
	where := t.path
	if where == "" {
		where = "which is empty: give one with --images"
	}
	return Image{}, fmt.Errorf("image %q is not in the image table (%s); it has %s", name, where,
		strings.Join(sortedKeys(t.images), ", "))
}

// Command is what the container runs: as in Kubernetes, a command of the pod replaces both, its arguments only those.
func (i Image) Command(command, args []string) []string {
	switch {
	case len(command) > 0:
		return append(append([]string{}, command...), args...)
	case len(args) > 0:
		return append(append([]string{}, i.Entrypoint...), args...)
	default:
		return append(append([]string{}, i.Entrypoint...), i.Args...)
	}
}

func sortedKeys(images map[string]Image) []string {
	names := make([]string, 0, len(images))
	for name := range images {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
