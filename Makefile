# Everything a person or the CI does here. `make` alone lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:

HAPTIC_CACHE ?= $(HOME)/.cache/haptic
CARGO_TARGET_DIR ?= $(HAPTIC_CACHE)/target
CARGO ?= cargo

# What the build script of the binary embeds, and what tests load.
HAPTIC_PLUGINS_DIR ?= $(HAPTIC_CACHE)/plugins
HAPTIC_GUESTS_DIR ?= $(HAPTIC_CACHE)/guests
HAPTIC_HAPROXY_DIR ?= $(HAPTIC_CACHE)/haproxy/bin
HAPTIC_REGISTRY_TOOLS_DIR ?= $(HAPTIC_CACHE)/go/bin
export HAPTIC_CACHE CARGO_TARGET_DIR HAPTIC_PLUGINS_DIR HAPTIC_GUESTS_DIR HAPTIC_HAPROXY_DIR HAPTIC_REGISTRY_TOOLS_DIR

# Kernels for ARM may have pages of 64 KiB, and the allocator must be built for the largest.
ifneq ($(filter aarch64 arm64,$(shell uname -m)),)
export JEMALLOC_SYS_WITH_LG_PAGE := 16
endif

RELEASE := $(CARGO_TARGET_DIR)/release/haptic
# What images hold and benches measure: optimised over all crates, which takes half as long again to build.
DIST := $(CARGO_TARGET_DIR)/dist/haptic
BENCH := HAPTIC_BIN=$(DIST) $(CARGO_TARGET_DIR)/dist/haptic-bench
DEBUG := $(CARGO_TARGET_DIR)/debug/haptic
HAPTIC_CLUSTER := $(HAPTIC_REGISTRY_TOOLS_DIR)/haptic-cluster
# Workspaces beside the main one: what is built to wasm has its own lock file and lints.
SIDE_WORKSPACES := $(patsubst %/Cargo.toml,%,$(wildcard plugins/Cargo.toml sdk/Cargo.toml tests/guests/Cargo.toml tests/bench/native/Cargo.toml tests/promql/Cargo.toml))

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

.PHONY: toolchain
toolchain:
	@command -v $(CARGO) >/dev/null || { echo "error: no Rust toolchain: install rustup, then run this again; the version and its wasm targets come from rust-toolchain.toml" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "error: no C linker (cc): install gcc or clang, e.g. apt-get install gcc libc6-dev" >&2; exit 1; }
	@# The version may be there without the targets; where all is there this asks nobody.
	@if command -v rustup >/dev/null; then rustup toolchain install >/dev/null 2>&1 || rustup toolchain install; fi

.PHONY: run
run: build ## Serve the example shop through a real HAProxy on http://shop.localhost:8080
	@tests/tools/run-shop.sh $(RELEASE)

.PHONY: build
build: plugins ## Build the release binary with the built-in plugins
	$(CARGO) build --release -p haptic
	@echo "built $(RELEASE)"

.PHONY: dist
dist: plugins ## Build the binary of the images
	$(CARGO) build --profile dist -p haptic
	@echo "built $(DIST)"

.PHONY: build-bench
build-bench: plugins
	$(CARGO) build --profile dist -p haptic -p haptic-bench

.PHONY: plugins
plugins: toolchain ## Build the first-party plugins to wasm
	@echo "building the first-party plugins to $(HAPTIC_PLUGINS_DIR)"
	plugins/build.sh $(HAPTIC_PLUGINS_DIR)

.PHONY: guests
guests: toolchain ## Build the hostile guests that the tests load
	@echo "building the guests to $(HAPTIC_GUESTS_DIR)"
	tests/guests/build.sh $(HAPTIC_GUESTS_DIR)

.PHONY: haproxies
haproxies: ## Install HAProxy 3.0, 3.2 and 3.4 side by side for the tests
	tests/tools/install-haproxies.sh $(patsubst %/bin,%,$(HAPTIC_HAPROXY_DIR))

.PHONY: registry-tools
registry-tools: ## Build a real OCI registry and cosign for the tests
	tests/tools/install-registry-tools.sh $(patsubst %/bin,%,$(HAPTIC_REGISTRY_TOOLS_DIR))

.PHONY: cluster-tools
cluster-tools: ## Build a real Kubernetes for the tests, from its Go modules
	tests/tools/install-cluster.sh $(patsubst %/bin,%,$(HAPTIC_REGISTRY_TOOLS_DIR))

.PHONY: browser
browser: ## Install Chromium and its driver for the tests of the status page
	@tests/tools/install-browser.sh

.PHONY: helm-tools
helm-tools: ## Build Helm 3 and Helm 4 for the tests of the charts, from their Go modules
	tests/tools/install-helm.sh $(patsubst %/bin,%,$(HAPTIC_REGISTRY_TOOLS_DIR))

.PHONY: cluster
cluster: haproxies cluster-tools build-debug ## Start a Kubernetes to play with
	@tests/tools/cluster.sh up $(HAPTIC_CLUSTER) $(DEBUG)

.PHONY: cluster-shop
cluster-shop: ## Serve the example shop in the cluster of `make cluster`
	@tests/tools/cluster-shop.sh $(HAPTIC_CLUSTER) $(DEBUG)

.PHONY: cluster-down
cluster-down: ## End it
	@tests/tools/cluster.sh down $(HAPTIC_CLUSTER) $(DEBUG)

.PHONY: authors-tools
authors-tools: build-debug ## Install the tools that build plugins in Python and JavaScript
	$(DEBUG) plugin toolchain

.PHONY: build-debug
build-debug: plugins guests
	$(CARGO) build --workspace --all-targets

.PHONY: test
test: haproxies registry-tools cluster-tools helm-tools browser build-debug authors-tools test-side test-cluster ## Run every test, with real HAProxies and real plugins
	HAPTIC_BIN=$(DEBUG) $(CARGO) test --workspace

.PHONY: test-side
test-side: toolchain
	@for side in $(filter-out tests/guests tests/bench/native,$(SIDE_WORKSPACES)); do \
	  echo "== tests of $$side"; (cd $$side && $(CARGO) test --workspace); done

.PHONY: test-cluster
test-cluster: cluster-tools
	@echo "== tests of tests/cluster"; tests/tools/install-cluster.sh $(patsubst %/bin,%,$(HAPTIC_REGISTRY_TOOLS_DIR)) test

.PHONY: lint
lint: plugins ## Check formatting and run clippy, warnings being errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@for side in $(SIDE_WORKSPACES); do \
	  echo "== lints of $$side"; (cd $$side && $(CARGO) fmt --all --check); done
	@for side in $(filter-out tests/guests,$(SIDE_WORKSPACES)); do \
	  (cd $$side && $(CARGO) clippy --workspace --all-targets -- -D warnings); done
	@for side in $(filter tests/guests,$(SIDE_WORKSPACES)); do \
	  (cd $$side && $(CARGO) clippy --workspace --target wasm32-wasip2 -- -D warnings); done

.PHONY: docs
docs: plugins ## Build the API documentation, warnings being errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

.PHONY: generate
generate: build-debug ## Write crds/ from the types of host/api
	$(DEBUG) crds --out crds

.PHONY: generate-charts
generate-charts: helm-tools build-debug ## Write the charts' schema from crds/, their reference, and what they render to
	HAPTIC_BLESS=1 HAPTIC_BIN=$(DEBUG) $(CARGO) test --workspace --test charts -- reference written_down

.PHONY: check-generated
check-generated: build-debug ## Fail when crds/ is not what the types say
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	  $(DEBUG) crds --out "$$fresh" && \
	  diff -ru crds "$$fresh" || { echo "error: crds/ differs from host/api: run make generate and commit the result" >&2; exit 1; }

.PHONY: bench
bench: haproxies build-bench guests ## Print figures: renders, changes, plugin calls, memory; with versions and medians
	cd tests/bench/native && $(CARGO) build --release
	HAPTIC_NATIVE_VALIDATORS=$(CARGO_TARGET_DIR)/release/native-validators $(BENCH)

.PHONY: bench-kubernetes
bench-kubernetes: haproxies cluster-tools build-bench ## Print figures in a real Kubernetes: start, endpoint changes, new routes, memory
	$(BENCH) kubernetes

.PHONY: bench-admission
bench-admission: haproxies cluster-tools build-bench ## Print figures in a real Kubernetes: writes that the webhook judges
	$(BENCH) admission

.PHONY: fmt
fmt: toolchain ## Format all code
	$(CARGO) fmt --all
	@for side in $(SIDE_WORKSPACES); do (cd $$side && $(CARGO) fmt --all); done

.PHONY: clean
clean: ## Remove what was built (the installed HAProxies stay)
	rm -rf $(CARGO_TARGET_DIR) $(HAPTIC_PLUGINS_DIR) $(HAPTIC_GUESTS_DIR) tests/examples/shop/common/generated
