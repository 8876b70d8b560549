# Every target sets up what it needs in .venv; a second run redoes only what changed.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The stamps live in the environment whose state they record: without it they are void.
STAMPS := $(VENV)/.stamps
DIST ?= dist
PINS := requirements-dev.txt
CORE := python/hotloop/_core.abi3.so
CORE_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name 'Cargo.toml')
TYPED := python tests $(wildcard examples)
# One more than the two cores of a small machine: many tests wait for other processes.
SIDE_BY_SIDE := -n 3 --dist worksteal
NPM := $(shell command -v npm)
DASHBOARD := python/hotloop/server/static/index.html
DASHBOARD_SOURCES := $(shell find dashboard -name node_modules -prune -o -type f -print)

# maturin and pyo3 take the interpreter from here, whatever environment is active in the shell.
export VIRTUAL_ENV := $(abspath $(VENV))
export PYO3_PYTHON := $(abspath $(VENV))/bin/python
# Without bytecode, each of the processes that tests start would compile the package again.
unexport CONDA_PREFIX PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo build dashboard assets test test-dashboard test-rust test-python test-full test-browser test-server reliability faults-jobs lint format bench wheel system-deps clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: build ## Build, and train a policy until its task is solved, in a second (no torch, no peers)
	@start=$$(date +%s%N); $(BIN)/hotloop train cartpole && \
	echo "From process start to a solved task with a checkpoint: $$(( ($$(date +%s%N) - start) / 1000000 )) ms."
	@echo
	@echo "Evaluation on 100 new episodes (a mean of 475 counts as solved):"
	@$(BIN)/hotloop eval last --episodes 100 --at-least 475
	@echo
	@echo "Next: $(BIN)/hotloop train pendulum          another task; '$(BIN)/hotloop envs' lists them all"
	@echo "      $(BIN)/hotloop verify last             repeat that run and compare every bit"
	@echo "      $(BIN)/hotloop bench train --quick     measure the training speed of this machine"
	@echo "      read README.md and docs/training.md; 'make test' runs all tests"

build: $(CORE) ## Build the native core (release) and install the package in place

dashboard: ## Build the web app into the package (needs Node 20.19 or newer)
	@test -n "$(NPM)" || { echo "npm is missing: install Node 20.19 or newer" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(DASHBOARD)

assets: ## Build the web app where Node exists; everything else works without it
	@if test -n "$(NPM)"; then $(MAKE) --no-print-directory $(DASHBOARD); \
	else echo "Note: without Node the dashboard is not built; 'hotloop serve' has its API only."; fi

test: lint test-dashboard test-rust test-python ## Run all lints and all tests

test-dashboard: assets ## Lint, type-check and test the web app, where Node exists
	@if test -n "$(NPM)"; then cd dashboard && npm run --silent check && npm run --silent test && npm run --silent budget; \
	else echo "Note: without Node the web app is not tested."; fi

test-rust: ## Run the tests of the Rust crates
	cargo test --workspace --locked

test-python: $(CORE) $(STAMPS)/dev assets ## Run the tests of the Python package, wheel included
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-full: $(CORE) $(STAMPS)/dev assets ## Run the tests of the Python package in their long forms
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m '' -o faulthandler_timeout=1800

test-browser: $(CORE) $(STAMPS)/dev dashboard ## Run all tests of the dashboard in a browser; 'make test' runs a few
	$(BIN)/python -m pytest tests/browser -m ''

test-server: $(CORE) $(STAMPS)/dev ## Run all tests of the server, a long fuzz of its API included; 'make test' has a short one
	$(BIN)/python -m pytest tests/server -m '' -o faulthandler_timeout=1800

reliability: $(CORE) $(STAMPS)/dev ## Kill, damage, forge and fuzz for an hour; prints counts per class
	$(BIN)/python -m tests.reliability --kills 200 --deaths 200 --mutations 500 --forgeries 80 --trust 256 --hostile 400 --calls 20000 --seed 0

faults-jobs: $(CORE) $(STAMPS)/dev ## Kill orchestrators and jobs 200 times over 1000 jobs; compares all weights
	$(BIN)/python -m tests.orchestrator.faults --jobs 1000 --kills 200 --seed 0

lint: $(CORE) $(STAMPS)/dev ## Check format, style and types of Python and Rust
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPED)
	$(BIN)/stubtest hotloop._core
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

format: $(STAMPS)/dev ## Format Python and Rust, and repair what the linters can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --all

bench: $(CORE) $(STAMPS)/dev ## Measure the environments beside their peers
	$(BIN)/hotloop bench envs

wheel: $(STAMPS)/tools assets ## Build a wheel into dist/
	$(BIN)/maturin build --release --locked --out $(DIST)

system-deps: ## Install the system packages that tests can use (root, Debian): PostgreSQL, Chromium
	apt-get install --yes --no-install-recommends postgresql chromium

clean: ## Remove everything that these targets made, .venv included
	rm -rf $(VENV) target $(DIST) $(CORE) $(dir $(DASHBOARD)) dashboard/node_modules .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The package's own requirements come with `maturin develop`; the pins hold them to the versions we test.
$(CORE): $(CORE_SOURCES) pyproject.toml $(STAMPS)/tools
	PIP_QUIET=1 PIP_CONSTRAINT=$(PINS) $(BIN)/maturin develop --release --locked
	@touch $@

$(DASHBOARD): $(DASHBOARD_SOURCES)
	cd dashboard && npm ci --no-audit --no-fund --silent && npm run --silent build
	@touch $@

$(STAMPS)/tools: $(PINS) | $(STAMPS)
	@command -v cargo >/dev/null || { echo "cargo is missing: install a Rust toolchain first" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint $(PINS) maturin
	@touch $@

$(STAMPS)/dev: $(PINS) | $(STAMPS)
	$(BIN)/python -m pip install --quiet --requirement $(PINS)
	@touch $@

$(STAMPS):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $@
