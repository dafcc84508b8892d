package image

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func load(t *testing.T, content string) (*Table, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "images.json")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load(path, map[string]Image{"demo": {Entrypoint: []string{"/demo"}}})
}

func TestFindsImagesByTheirExactNameThenWithoutTagAndDigest(t *testing.T) {
	table, err := load(t, `{"host:5000/web": {"entrypoint": ["/bare"]}, "host:5000/web:2": {"entrypoint": ["/second"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"host:5000/web": "/bare", "host:5000/web:1": "/bare", "host:5000/web:2": "/second",
		"host:5000/web:1@sha256:00": "/bare", "host:5000/web@sha256:00": "/bare", "demo:latest": "/demo",
	} {
		image, err := table.Find(name)
		if err != nil || image.Entrypoint[0] != want {
			t.Errorf("%s: got %v, %v, want %s", name, image.Entrypoint, err, want)
		}
	}
}

func TestNamesTheTableWhereAnImageIsNotInIt(t *testing.T) {
	table, err := load(t, `{"web": {"entrypoint": ["/web"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Find("host:5000/other")
	for _, part := range []string{`"host:5000/other"`, "images.json", "demo, web"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v does not tell %s", err, part)
		}
	}
}

func TestRefusesTablesThatCannotBeMeant(t *testing.T) {
	for content, want := range map[string]string{
		`{"web": {"entrypoint": ["/web"], "bind": {}}}`: "unknown field",
		`{"web": {}}`: "no entrypoint",
		`{"web": {"entrypoint": ["/web"], "binds": {"web": "/bin/sh"}}}`:    "absolute",
		`{"web": {"entrypoint": ["/web"], "binds": {"/web": "/not/here"}}}`: "no such file",
	} {
		if _, err := load(t, content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", content, err, want)
		}
	}
}

func TestCommandAndArgsReplaceThoseOfTheImageAsInKubernetes(t *testing.T) {
	image := Image{Entrypoint: []string{"/web"}, Args: []string{"serve"}}
	for _, c := range []struct{ command, args, want []string }{
		{nil, nil, []string{"/web", "serve"}},
		{nil, []string{"check"}, []string{"/web", "check"}},
		{[]string{"/sh"}, nil, []string{"/sh"}},
		{[]string{"/sh"}, []string{"-c"}, []string{"/sh", "-c"}},
	} {
		if got := image.Command(c.command, c.args); !reflect.DeepEqual(got, c.want) {
			t.Errorf("command %v, args %v: got %v, want %v", c.command, c.args, got, c.want)
		}
	}
}
