# make demo    install what is missing, measure every virtual bridge this machine can make, print where the report is
# make test    pass the tests
# make build   .venv/bin/latlab and .venv/bin/latlab-agent, ready to use
# make bench   measure against the peers, side by side
# make experiments   repeat the five published experiments in virtual time, and write docs/experiments
# make lint    what the code has to satisfy besides its tests
# make man     manual pages of the command line, in build/man
#
# All are safe to repeat, and fast the second time.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := build

VENV := .venv
BENCHES := latency_sockperf round_trip_sockperf round_trip_netperf latency_ddsperf wakeup_cyclictest highest_rate packet_table xdp_bridge lab_overhead board_times gate_effects trace_overhead
# Tests run side by side, a file at a time; how many lanes there are, and who has which CPU: tests/lanes.py.
LANES := --numprocesses auto --dist loadfile --no-loadscope-reorder
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# Naming the target keeps the static-linking flags from the build's own tools (agent/.cargo/config.toml).
# What is imported a few hundred times is compiled once.
unexport PYTHONDONTWRITEBYTECODE
export CARGO_BUILD_TARGET = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
AGENT = agent/target/$(CARGO_BUILD_TARGET)/release/latlab-agent

.PHONY: build demo image test bench experiments lint man require-% agent python

build: require-build python agent

require-%:
	@tools/require $*

python: $(VENV)/.installed

# requirements.lock has what latlab, its tests and its build need, with the hashes of all files of each version. Renew it by
# pip-compile --extra dev --all-build-deps --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header
# --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
$(VENV)/.installed: requirements.lock pyproject.toml | require-build
	@python3 -m venv $(VENV)
	pip="$(VENV)/bin/pip install --quiet --disable-pip-version-check"
	$$pip --require-hashes --only-binary :all: --requirement requirements.lock
	$$pip --no-index --no-deps --no-build-isolation --editable .
	touch $@

agent: python
	@cd agent
	cargo build --locked --quiet --release
	cd ..
	# A running agent keeps its file; the new one takes the name.
	cmp --silent $(AGENT) $(VENV)/bin/latlab-agent || install $(AGENT) $(VENV)/bin/latlab-agent

demo: require-demo build image
	@$(SUDO) $(VENV)/bin/latlab run demo

image: build
	@$(SUDO) $(VENV)/bin/latlab image build --quiet

# What was compiled for use is what is tested, and not compiled a second time.
test: require-test build image
	@(cd agent && cargo test --locked --quiet --release)
	$(SUDO) $(VENV)/bin/pytest $(LANES) $(PYTEST)

bench: require-bench build image
	@for one in $(BENCHES); do echo "== $$one"; $(SUDO) $(VENV)/bin/python benches/$$one.py; done

lint: require-build python
	@(cd agent && cargo fmt --check && cargo clippy --locked --quiet --all-targets -- --deny warnings)
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

man: python
	@$(VENV)/bin/python tools/man.py build/man

# The five published experiments in virtual time; ONLY=NAME: one of them. What images they need is built.
experiments: require-demo build
	@$(SUDO) $(VENV)/bin/python tools/experiments.py $(addprefix --only ,$(ONLY))
