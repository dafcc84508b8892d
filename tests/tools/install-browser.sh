#!/usr/bin/env bash
# Makes sure that the tests of the status page find a browser and its driver: Chromium and ChromeDriver, as the machine's
# own packages. What is there is kept; otherwise it is installed, which needs root.
#
# usage: install-browser.sh
set -euo pipefail

say() { printf 'browser: %s\n' "$*"; }
fail() { printf 'browser: error: %s\n' "$*" >&2; exit 1; }

if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
    fail "chromium and chromedriver are missing: install them (Debian: apt-get install chromium chromium-driver)"
  say "installing chromium and chromium-driver"
  apt-get -qq update
  # Some text has to be drawn with a font.
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium chromium-driver fonts-dejavu-core
fi
# Each works with the other of its own version only.
browser=$(chromium --version --no-sandbox 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1) || fail "chromium does not start"
driver=$(chromedriver --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1) || fail "chromedriver does not start"
[ "${browser%%.*}" = "${driver%%.*}" ] || fail "chromium is $browser and chromedriver $driver: install them from one source"
say "chromium $browser with its driver"
