# Everything a newcomer, a developer and CI type. `make help` lists it.

# The first Python that is new enough; `make PYTHON=/path/to/python` overrides it.
PYTHON ?= $(or $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FUZZ_STAMP := $(VENV)/.installed-fuzz
FUZZ_SECONDS ?= 3600
# Half of the tests' time is waiting for processes that they start.
PARALLEL ?= --numprocesses=auto --maxprocesses=4 --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-deployment ci-deps setup check format fuzz dashboard clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## train ten simulated clients with 1-bit updates and print what each round cost
	$(BIN)/fedcomp simulate --name demo

test: $(STAMP) ## run the tests
	$(BIN)/pytest -m "not slow" $(PARALLEL)

test-slow: $(STAMP) ## run the long tests too
	$(BIN)/pytest $(PARALLEL)

test-deployment: $(STAMP) ## run a federation of real processes on loopback, killed and started again
	$(BIN)/pytest tests/deployment

ci-deps: ## install what some tests use beside Python, where absent: chromium, nginx, iproute2, postgresql
	@.ci/deps

setup: $(STAMP) ## create .venv with pinned dependencies

check: $(STAMP) ## lint, formatting and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(FUZZ_STAMP) ## look for payloads that do harm, for FUZZ_SECONDS (an hour); what is found goes to .fuzz/
	@$(BIN)/python -m tests.hostile.fuzz_decode -max_total_time=$(FUZZ_SECONDS) && echo "no payload did harm" || \
		{ echo "found one: see .fuzz/, repeat with $(BIN)/python -m tests.hostile.fuzz_decode .fuzz/crash-…" >&2; exit 1; }

dashboard: $(STAMP) ## show the runs in a browser, live
	$(BIN)/fedcomp dashboard

clean: ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedcomp needs Python 3.11 or newer; run: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "installing pinned dependencies into $(VENV), a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(FUZZ_STAMP): $(STAMP)
	@echo "installing the fuzzer into $(VENV)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	@$(BIN)/python -c 'import atheris' || { echo "atheris is there for Linux on x86-64 and Python 3.11 to 3.13 only;" \
		"run: make fuzz VENV=.venv-fuzz PYTHON=/path/to/python3.13" >&2; exit 1; }
	@touch $@
