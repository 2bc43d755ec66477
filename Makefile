# latlab: what can be made. All of it is safe to repeat, and fast the second time.
#
# make help         print these lines
# make build        .venv/bin/latlab and .venv/bin/latlab-agent, ready to use (also: make)
# make agents       the same, and .venv/bin/latlab-agent-aarch64 for ARM machines (on one: latlab-agent-x86_64)
# make other-tests  unit tests of the agent for the other architecture, in build; tests run them on an emulated machine
# make demo         install what is missing, measure the virtual bridges, in virtual time without KVM, say where the report is
# make format       write code and tests in the form that lint expects
# make lint         form, lints and types; fuzz targets compile
# make lint-other   the oldest Rust allowed compiles the agent for its other architecture, and its Clippy finds nothing
# make check        lint, and the tests that need no root, no guest and no browser; before each commit
# make test         the tests of each change; PYTEST='-m guest' or PYTEST=tests/testbed: some of all tests (tests/README.md)
# make test-all     these, and those marked long: packages on clean machines, ARM boards over ssh, further beds; an hour and more
# make man          manual pages of the command line, in build/man
# make reference    write what the code declares: tables of docs/ (trust rules, metrics, anomaly classes, bridges), the scenario's schema
# make docs         the documentation as a site in docs/_build/html; every link between pages is checked
# make bench        measure against the peers, side by side
# make experiments  repeat the five published experiments in virtual time, and write docs/experiments; ONLY=NAME: one of them
# make deny         check licences, sources and known vulnerabilities of the agent's crates, with cargo-deny
# make fuzz         fuzz what the agent reads from others, with cargo-fuzz; ONLY=NAME: one target; SECONDS_EACH=60
# make lock         write requirements.lock and docs/requirements.lock anew, with the newest versions that pyproject.toml allows
# make package      wheel with both agents, Debian packages, recipe of a container image and bill of materials, in dist/
# make release      the same and the source archive, after checking that versions, dates and changelog agree

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := build

VENV := .venv
BENCHES := latency_sockperf round_trip_sockperf round_trip_netperf latency_ddsperf wakeup_cyclictest highest_rate packet_table xdp_bridge lab_overhead board_times architectures gate_effects trace_overhead live_overhead trigger_overhead stage_programs watch_rate watch_sample watch_peers start_up
# Tests run side by side, a file at a time; how many lanes there are, and who has which CPU: tests/support/suite/lanes.py.
LANES := --numprocesses auto --dist loadfile --no-loadscope-reorder
SECONDS_EACH := 60
# A program that is not a part of the project, and how to get it.
needs = command -v $(1) >/dev/null || { echo "$(1) is missing: $(2)" >&2; exit 3; }
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Naming the target keeps the static-linking flags from the build's own tools (agent/.cargo/config.toml).
# What is imported a few hundred times is compiled once.
unexport PYTHONDONTWRITEBYTECODE
export CARGO_BUILD_TARGET = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
# The agent is the same, byte for byte, whatever folder it is built in: images and snapshots that have it serve every clone.
# Cargo adds these flags to those of agent/.cargo/config.toml, for this target alone.
CRATES := $(or $(CARGO_HOME),$(HOME)/.cargo)
BUILT_IN := --remap-path-prefix=$(CURDIR)/agent=agent --remap-path-prefix=$(CRATES)=cargo
export CARGO_TARGET_$(shell echo $(CARGO_BUILD_TARGET) | tr a-z- A-Z_)_RUSTFLAGS = $(BUILT_IN)
export CFLAGS += -ffile-prefix-map=$(CURDIR)/agent=agent -ffile-prefix-map=$(CRATES)=cargo
AGENT = agent/target/$(CARGO_BUILD_TARGET)/release/latlab-agent

# The architecture of the other agent, and what Cargo and the C compiler are told for it.
OTHER := $(if $(filter aarch64,$(shell uname -m)),x86_64,aarch64)
OTHER_TARGET := $(OTHER)-unknown-linux-gnu
OTHER_AGENT := agent/target/$(OTHER_TARGET)/release/latlab-agent
OTHER_CARGO := CARGO_TARGET_$(shell echo $(OTHER_TARGET) | tr a-z- A-Z_)
OTHER_TESTS := $(CURDIR)/build/unit-tests-$(OTHER)
# The oldest Rust that compiles the agent: Debian's own, so that what needs a newer one is noticed.
OLDEST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' agent/Cargo.toml)
OTHER_RUST := $(CURDIR)/build/rust-$(OLDEST)-$(OTHER)

.PHONY: build agents other-tests help demo image format lint lint-other check test test-all reference docs man bench experiments deny fuzz lock package release require-% agent python

build: require-build python agent

help:
	@sed -n 's/^# \(make [a-z]\)/\1/p' Makefile

require-%:
	@tools/require $*

python: $(VENV)/.installed

# requirements.lock has what latlab, its tests and its build need, docs/requirements.lock what the site needs, with the hashes of
# all files of each version.
$(VENV)/.installed: requirements.lock pyproject.toml | require-build
	@python3 -m venv $(VENV)
	pip="$(VENV)/bin/pip install --quiet --disable-pip-version-check"
	$$pip --require-hashes --only-binary :all: --requirement requirements.lock
	$$pip --no-index --no-deps --no-build-isolation --editable .
	touch $@

agent: python
	@cd agent
	# CycloneDDS would take our commit for its own.
	GIT_CEILING_DIRECTORIES=$(CURDIR) cargo build --locked --quiet --release
	cd ..
	# A running agent keeps its file; the new one takes the name.
	cmp --silent $(AGENT) $(VENV)/bin/latlab-agent || install $(AGENT) $(VENV)/bin/latlab-agent

# Shell lines that have Cargo build for the other architecture. Without rustup's library for it, Debian's own compiler is used.
define FOR_OTHER
rustc=$$(command -v rustc)
if [ ! -d "$$(rustc --print sysroot)/lib/rustlib/$(OTHER_TARGET)/lib" ]; then
	tools/rust-for $(OTHER) $(OTHER_RUST) $(OLDEST)
	rustc=$(OTHER_RUST)/rustc
fi
export RUSTC=$$rustc CARGO_BUILD_TARGET=$(OTHER_TARGET)
export $(OTHER_CARGO)_LINKER=$(OTHER)-linux-gnu-gcc $(OTHER_CARGO)_RUSTFLAGS="$(BUILT_IN)"
cd agent
endef

# The agents for both architectures.
agents: require-agents build
	@$(FOR_OTHER)
	GIT_CEILING_DIRECTORIES=$(CURDIR) cargo build --locked --quiet --release
	cd ..
	cmp --silent $(OTHER_AGENT) $(VENV)/bin/latlab-agent-$(OTHER) || install $(OTHER_AGENT) $(VENV)/bin/latlab-agent-$(OTHER)

# The programs that are the unit tests of what needs no other library, for an emulated machine of the other architecture.
other-tests: require-agents
	@$(FOR_OTHER)
	mkdir -p $(OTHER_TESTS)
	cargo test --no-run --locked --quiet --release --package latlab-wire --package latlab-sys --message-format json |
		sed -n 's|.*"executable":"\([^"]*/\([a-z]*\)-[0-9a-f]*\)".*|\1 \2|p' |
		while read -r path name; do
			cmp --silent $$path $(OTHER_TESTS)/$$name || install $$path $(OTHER_TESTS)/$$name
		done

# Emulated in software, a guest's latencies are the emulator's: without KVM the bridges are compared in virtual time.
demo: require-demo build
	@images="debian-rt-board debian-rt" scenario=bridges-board
	# Whether KVM can be used is asked of latlab: /dev/kvm alone does not say.
	lacking=$$($(VENV)/bin/python -c "from latlab.testbed.machine import read_machine; print(read_machine().kvm or '')")
	if [ -z "$$lacking" ]; then images=debian-cloud scenario=demo; fi
	for image in $$images; do $(SUDO) $(VENV)/bin/latlab image build --quiet $$image; done
	$(SUDO) $(VENV)/bin/latlab run $$scenario

image: build
	@$(SUDO) $(VENV)/bin/latlab image build --quiet

# What was compiled for use is what is tested, and not compiled a second time. The agent's unit tests are compiled with the time
# that the other tests leave. Tests build the images that they need.
test: require-test agents
	@(cd agent && exec chrt --idle 0 cargo test --no-run --locked --quiet --release) &
	compiled=$$! failed=0
	$(SUDO) $(VENV)/bin/pytest $(LANES) $(or $(PYTEST),-m 'not long') || failed=$$?
	wait $$compiled || failed=$$?
	# Unit tests of the agent leave their files in a folder that goes with them.
	scratch=$$(mktemp --directory)
	(cd agent && TMPDIR=$$scratch cargo test --locked --quiet --release) || failed=$$?
	rm --recursive $$scratch
	exit $$failed

test-all: other-tests
	@$(MAKE) --no-print-directory test PYTEST=tests

bench: require-bench build image
	@for one in $(BENCHES); do echo "== $$one"; $(SUDO) $(VENV)/bin/python benches/$$one.py; done

format: require-lint python
	@$(VENV)/bin/ruff check --fix-only --quiet
	$(VENV)/bin/ruff format
	for crates in agent agent/fuzz; do (cd $$crates; cargo fmt); done

# Build scripts and macros are those of the release build: nothing is compiled a second time. Fuzz targets are not linked, so the
# library that they are linked with is not compiled.
lint: require-lint python
	@$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	trap wait EXIT
	$(VENV)/bin/mypy & types=$$!
	export CARGO_TARGET_DIR=$(CURDIR)/agent/target CUSTOM_LIBFUZZER_PATH=/nonexistent/libfuzzer.a
	for crates in agent agent/fuzz; do
		cd $(CURDIR)/$$crates
		cargo fmt --check
		cargo clippy --locked --quiet --release --all-targets -- --deny warnings
	done
	wait $$types

# Debian's Clippy is called as `cargo clippy` calls rustup's.
lint-other: require-agents
	@tools/rust-for $(OTHER) $(OTHER_RUST) $(OLDEST)
	cd agent
	export RUSTC=$(OTHER_RUST)/rustc RUSTC_WORKSPACE_WRAPPER=$(OTHER_RUST)/clippy-driver
	# 1.85 asks for parentheses that later ones do not.
	hackery=__CLIPPY_HACKERY__
	export CLIPPY_ARGS=--deny$${hackery}warnings$${hackery}--allow$${hackery}clippy::precedence$$hackery CARGO_BUILD_TARGET=$(OTHER_TARGET)
	cargo check --locked --quiet --release --all-targets

man: python
	@$(VENV)/bin/python tools/man.py build/man

check: lint build
	@$(VENV)/bin/pytest $(LANES) -m fast $(PYTEST)

reference: build
	@$(VENV)/bin/python tools/reference.py

# A virtual environment of its own: nothing of it is needed to use latlab.
docs: $(VENV)-docs/.installed
	@$(VENV)-docs/bin/sphinx-build --fail-on-warning --keep-going --quiet -c docs . docs/_build/html
	echo "docs/_build/html/index.html"

$(VENV)-docs/.installed: docs/requirements.lock
	@python3 -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --requirement $<
	touch $@

deny:
	@$(call needs,cargo-deny,cargo install --locked cargo-deny)
	cd agent
	cargo deny --locked check

fuzz:
	@$(call needs,cargo-fuzz,cargo install --locked cargo-fuzz; it uses a nightly toolchain of rustup)
	cd agent
	for target in $(or $(ONLY),$$(cargo +nightly fuzz list)); do
		mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target
		cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(SECONDS_EACH)
	done

lock: $(VENV)-docs/.installed
	@plain="--strip-extras --no-annotate --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host"
	compile="$(VENV)-docs/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe $$plain"
	$$compile --extra dev --all-build-deps --output-file requirements.lock pyproject.toml
	python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"], sep="\n")' |
		$$compile --output-file docs/requirements.lock -
	sed --in-place '/^#\|^$$/d' requirements.lock docs/requirements.lock

package: agents
	@$(VENV)/bin/python tools/package.py dist

release: agents docs
	@$(VENV)/bin/python tools/release.py

# What images they need is built.
experiments: require-demo build
	@$(SUDO) $(VENV)/bin/python tools/experiments.py $(addprefix --only ,$(ONLY))
