# Everything that a developer or CI does here; `make` alone lists the targets.
# Each recipe line stands alone, so that the old make of macOS runs it too.

.DEFAULT_GOAL := help

# What a user's own Python looks for elsewhere is none of ours; and where it keeps no bytecode, each command compiles us anew.
unexport PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

# What .venv is made with: the first interpreter that fits, or the one named in `make PYTHON=/path/to/python3 up`.
PYTHON ?= $(shell unset PYTHONHOME PYTHONPATH; for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(FITS)' 2>/dev/null && { echo "$$p"; break; }; done)
FITS := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
need_python = "$(PYTHON)" -c '$(FITS)' 2>/dev/null || { exec >&2; \
	echo 'Memrelay needs Python 3.11 to 3.14 with its venv module; name one: make PYTHON=/path/to/python3'; exit 1; }

BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -q --no-user --disable-pip-version-check
LOCKED := $(INSTALL) --require-hashes --only-binary=:all: -r
COMPILE := pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--upgrade --custom-compile-command 'make lock' --group build
has_chromium = { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
apt_get = $$([ "$$(id -u)" = 0 ] || echo sudo -n) env DEBIAN_FRONTEND=noninteractive apt-get -q
QUERIES ?= 1000000

.PHONY: help up test faults fuzz check lint types chromium bench bench-recall lock clean

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1@\2/p' Makefile | tr '@' '\t' | expand -t 20

up: .venv/.installed  ## run Memrelay: bus, worker and memory in one process
	@exec $(BIN)/memrelay up

test: check chromium  ## all that CI runs: the checks, then every test, four files at a time; what fails, once more
	$(BIN)/python -m pytest -n 4 --dist loadfile --cache-clear || $(BIN)/python -m tests.again

faults: .venv/.installed-dev  ## break everything that can break, the long forms of it too
	$(BIN)/python -m pytest tests/faults -m "long or not long" --junitxml=build/faults.xml
	$(BIN)/python -m tests.faults.figures build/faults.xml

fuzz: .venv/.installed-dev  ## ask what no route takes, a million queries or QUERIES=..., and change stores that are killed meanwhile
	$(BIN)/python -m pytest tests/web/test_schemathesis.py --timeout 0 --hypothesis-profile long
	$(BIN)/python -m pytest tests/memory/test_fuzz.py --timeout 0 --queries $(QUERIES)
	$(BIN)/python -m pytest tests/model -m "long or not long" --timeout 0

check: lint types  ## lint and types

lint: .venv/.installed-dev  ## ruff
	$(BIN)/ruff check -q .

types: .venv/.installed-dev  ## mypy, strict on the product
	$(BIN)/mypy memrelay

chromium:  ## install the browser that the tests of the page drive
	@$(has_chromium) || { command -v apt-get >/dev/null && $(apt_get) update && \
	$(apt_get) install -y --no-install-recommends chromium; } || \
	echo 'There is no Chromium, and none can be installed from here: as root, apt-get install chromium does. Its tests are skipped.'

bench: .venv/.installed-dev  ## measure the hot path
	$(BIN)/python benchmarks/run.py

bench-recall: .venv/.installed-dev  ## measure what is found: make bench-recall DATA=folder of LoCoMo, Cranfield, BEIR
	@$(BIN)/python benchmarks/recall/run.py $(if $(DATA),--data "$(DATA)")

lock:  ## renew both lock files from pyproject.toml
	@$(need_python)
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && "$(PYTHON)" -m venv "$$tools" && \
	"$$tools/bin/python" -m pip install -q --disable-pip-version-check uv && \
	"$$tools/bin/uv" $(COMPILE) --extra local pyproject.toml -o requirements.lock && \
	"$$tools/bin/uv" $(COMPILE) --extra local --extra wordllama --group dev -c requirements.lock pyproject.toml -o tests/requirements.lock

clean:  ## remove .venv and the caches; data stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A .venv that was never finished, has lost its Python, or was moved or copied here, whose programs name the folder that they
# were made in, is made anew.
usable = [ -e .venv/.installed ] && [ -x $(BIN)/python ] && grep -qF "$$(pwd -P)/$(BIN)/python" $(BIN)/memrelay
ifneq ($(shell $(usable) && echo yes),yes)
.PHONY: .venv/.installed
endif

.venv/.installed: requirements.lock pyproject.toml
	@$(need_python)
	@echo 'Installing what Memrelay needs into .venv: a minute or two the first time' >&2
	@$(usable) || "$(PYTHON)" -m venv --clear .venv
	@$(LOCKED) requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.installed-dev: tests/requirements.lock .venv/.installed
	@echo 'Installing what the tests need into .venv: some minutes the first time' >&2
	@$(LOCKED) tests/requirements.lock
	@touch $@
