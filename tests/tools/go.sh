# Finds or fetches a Go that is new enough, and builds programs with it; sourced by the scripts that build programs from Go
# modules, which set GO_MINOR and have `say` and `fail`. Sets GO.

has_go() { local minor; minor=$("$1" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p'); [ "${minor:-0}" -ge "$GO_MINOR" ]; }

# The machine's Go if it is new enough; else Debian's Go of any version fetches the one it is told to, by its own
# toolchain mechanism.
find_go() {
  local candidate
  for candidate in go /usr/local/go/bin/go /usr/lib/go/bin/go; do
    if command -v "$candidate" >/dev/null && has_go "$candidate"; then GO=$(command -v "$candidate"); return; fi
  done
  if ! command -v go >/dev/null; then install_packages golang-go ca-certificates; fi
  command -v go >/dev/null || fail "no Go: install Go 1.$GO_MINOR or newer and run this again"
  GO=$(command -v go)
  export GOTOOLCHAIN=go1.$GO_MINOR.0
  if has_go "$GO"; then return; fi
  # Go before 1.21 knows no toolchains; its modules carry a newer one.
  say "fetching Go 1.$GO_MINOR, this machine has $("$GO" version | cut -d' ' -f3)"
  fetch_go
}

# A Go toolchain is a module as well: golang.org/toolchain.
fetch_go() {
  local version=v0.0.1-go1.$GO_MINOR.0.linux-$(dpkg --print-architecture 2>/dev/null || uname -m) modules
  modules=$(unset GOTOOLCHAIN; "$GO" env GOMODCACHE)
  (unset GOTOOLCHAIN; cd "$(mktemp -d)" && GOFLAGS=-mod=mod "$GO" mod download "golang.org/toolchain@$version") ||
    fail "Go 1.$GO_MINOR could not be fetched: install it and run this again"
  GO=$modules/golang.org/toolchain@$version/bin/go
  chmod -R u+x "$(dirname "$GO")" "$(dirname "$GO")/../pkg/tool" 2>/dev/null || true
  has_go "$GO" || fail "the fetched Go does not run: try $GO version"
}

# Installs Debian packages where this may, and says nothing where it may not.
install_packages() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
  say "installing $*"
  apt-get -qq update </dev/null || say "apt-get update failed; trying with the lists that are there"
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" </dev/null >/dev/null ||
    say "could not install $*"
}

# The module and version that a binary was built from, as its build information says.
built_from() { "$GO" version -m "$1" 2>/dev/null | awk '$1 == "path" {path = $2} $1 == "mod" {print path "@" $3; exit}'; }

# go_program NAME MODULE@VERSION [LDFLAGS]: builds ROOT/bin/NAME; what is there in this version is kept.
go_program() {
  local name=$1 module=$2 ldflags=${3:-} started=$SECONDS build work log=$ROOT/$1.log
  if [ -x "$ROOT/bin/$name" ] && [ "$(built_from "$ROOT/bin/$name")" = "$module" ]; then
    say "$name is there (${module#*@})"
    return
  fi
  say "building $name from $module; this takes some minutes"
  work=$(mktemp -d "$ROOT/bin/.$name-XXXXXX")
  # Debug information is of no use here, and a private GOBIN leaves the user's own alone.
  GOBIN=$work GOFLAGS=-buildvcs=false CGO_ENABLED=0 "$GO" install -trimpath -ldflags="-s -w $ldflags" "$module" \
    >"$log" 2>&1 </dev/null &
  build=$!
  while kill -0 "$build" 2>/dev/null; do
    # Ends early with the build.
    timeout 15 tail --pid="$build" -f /dev/null 2>/dev/null || true
    if kill -0 "$build" 2>/dev/null; then
      say "$name: $((SECONDS - started)) s, $(grep -c '^go: downloading' "$log" || true) modules downloaded"
    fi
  done
  wait "$build" || { tail -n 20 "$log" >&2; rm -rf "$work"; fail "$name could not be built; the log is $log"; }
  # Whole or not at all; the module's own name for it may be another.
  mv -f "$work"/* "$ROOT/bin/$name"
  rm -rf "$work" "$log"
  say "$name is built after $((SECONDS - started)) s"
}
