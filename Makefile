# Everything that a developer or CI runs; `make` alone lists the targets.
# Each recipe line stands alone, so that the old make of macOS runs it too.

.DEFAULT_GOAL := help

# A user's Python settings may name other packages, or forbid bytecode, which makes every start slow.
unexport PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

# The interpreter for .venv: the first one that fits, or `make PYTHON=/path/to/python3 up`.
PYTHON ?= $(shell unset PYTHONHOME PYTHONPATH; for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(FITS)' 2>/dev/null && { echo "$$p"; break; }; done)
FITS := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
need_python = "$(PYTHON)" -c '$(FITS)' 2>/dev/null || { exec >&2; \
	echo 'Memrelay needs Python 3.11 to 3.14 with its venv module; name one: make PYTHON=/path/to/python3'; exit 1; }

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Most tests wait for a server or a disk, so twice as many workers as processors keep both busy.
PARALLEL := -n 4 --dist worksteal
# Installs chosen extras and groups of pyproject.toml, with the versions and hashes of requirements.lock.
INSTALL := deploy/install.py --into .venv --extra bge --extra local --extra mcp --group checkout
# `make test` also needs the packages of all optional parts.
DEV := --group dev --extra agents --extra jwt --extra objects --extra otel --extra postgres --extra seal --extra wordllama
has_chromium = { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
apt_get = $$([ "$$(id -u)" = 0 ] || echo sudo -n) env DEBIAN_FRONTEND=noninteractive apt-get -q
# The extras that requirements.lock holds. Each adapter has a lock of its own.
EXTRAS := agents anthropic bge jwt local mcp objects otel postgres rerank seal webhooks wordllama
QUERIES ?= 100000
RECALL_PEERS := build/recall-peers
PEER_VERSIONS := $(patsubst %,benchmarks/comparison/constraints/%.txt,chroma lancedb)

.PHONY: help up test test-all faults fuzz check lint types chromium bench bench-recall recall-peers docs lock clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1@\2/p' Makefile | tr '@' '\t' | expand -t 20

up: .venv/.installed  ## run Memrelay: bus, worker and web server in one process
	@exec $(BIN)/memrelay up

test: check  ## the checks and the tests of every change: about 5 minutes on two processors
	$(PYTEST) $(PARALLEL)

test-all: check chromium fuzz  ## the checks, every test, and long runs of the random tests
	$(PYTEST) $(PARALLEL) -m "slow or not slow" --ignore tests/model

faults: .venv/.installed-dev  ## every fault-injection test, with the figures of docs/faults.md
	$(PYTEST) tests/faults -m "slow or not slow" --junitxml=build/faults.xml
	$(BIN)/python -m tests.faults.figures build/faults.xml

fuzz: .venv/.installed-dev  ## hostile HTTP requests, QUERIES=... random searches, and stores killed under a model
	$(PYTEST) $(PARALLEL) tests/web/test_schemathesis.py -m "slow or not slow" --timeout 0 --hypothesis-profile long
	$(PYTEST) tests/memory -k fuzz -m "slow or not slow" --timeout 0 --queries $(QUERIES)
	$(PYTEST) tests/model -m "slow or not slow" --timeout 0

check: lint types  ## lint and types

lint: .venv/.installed-dev  ## ruff
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .

types: .venv/.installed-dev  ## mypy, strict on the product
	$(BIN)/mypy memrelay

chromium:  ## install the browser for the console tests
	@$(has_chromium) || { command -v apt-get >/dev/null && $(apt_get) update && \
	$(apt_get) install -y --no-install-recommends chromium; } || \
	echo 'Chromium is missing and cannot be installed from here. Run apt-get install chromium as root. Its tests are skipped.'

bench: .venv/.installed-dev  ## measure speed next to the programs of benchmarks/yardstick
	$(BIN)/python benchmarks/run.py

bench-recall: .venv/.installed-dev  ## measure search quality: make bench-recall DATA=folder of LoCoMo, Cranfield, BEIR
	@$(BIN)/python benchmarks/recall/run.py $(if $(DATA),--data "$(DATA)")

recall-peers: $(RECALL_PEERS)/.installed  ## install Chroma and LanceDB for bench-recall, in build/recall-peers

docs: .venv/.installed-dev  ## build the site of the documents in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

lock: .venv/.installed-dev  ## renew requirements.lock, and the locks of the adapters
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --upgrade \
	--custom-compile-command 'make lock' $(EXTRAS:%=--extra %) --group checkout --group dev pyproject.toml -o requirements.lock
	$(BIN)/python -m tests.integrations.environments

clean:  ## remove .venv and the caches; data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv is made again if it is incomplete, has lost its Python, or was moved or copied here: the
# programs of such a copy name another folder.
usable = [ -e .venv/.installed ] && [ -x $(BIN)/python ] && grep -qF "$$(pwd -P)/$(BIN)/python" $(BIN)/memrelay
ifneq ($(shell $(usable) && echo yes),yes)
.PHONY: .venv/.installed
endif

.venv/.installed: requirements.lock pyproject.toml
	@$(need_python)
	@echo 'Installing Memrelay into .venv: seconds with uv, which pip gets if it is missing' >&2
	@$(usable) || "$(PYTHON)" -m venv --without-pip --clear .venv
	@"$(PYTHON)" $(INSTALL)
	@touch $@

# The packages of Memrelay and of the peers, for the adapters of benchmarks/comparison.
$(RECALL_PEERS)/.installed: requirements.lock pyproject.toml $(PEER_VERSIONS) | .venv/.installed-dev
	@"$(PYTHON)" -m venv --without-pip --clear $(RECALL_PEERS)
	@"$(PYTHON)" deploy/install.py --into $(RECALL_PEERS) --tools .venv --extra bge --extra local --project none
	@$(BIN)/pip -q --python $(RECALL_PEERS)/bin/python install $(PEER_VERSIONS:%=-c %) chromadb lancedb
	@touch $@

.venv/.installed-dev: requirements.lock .venv/.installed
	@echo 'Installing the test tools into .venv' >&2
	@"$(PYTHON)" $(INSTALL) $(DEV)
	@touch $@
