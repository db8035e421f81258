# Two commands matter: `make demo` and `make test`. Both prepare what they need and are quick when it is there.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The tests start some thousand processes that import the same modules: let the first of them keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# Empty means: python3.11, or else a python3 that is new enough.
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin

# What the tests need from the system, as command:package.
SYSTEM_PACKAGES := redis-server:redis-server openssl:openssl prometheus:prometheus postgres:postgresql mariadbd:mariadb-server chromium:chromium

# More workers than cores, since many tests wait for leases, delays and servers: with eight on two cores, these were idle for 8 % of the
# time, with three for more than half.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n + 6)))

# What workers are tested on besides the installed Scrapy: the oldest in `make test`, all in `make test-matrix`.
SCRAPY_OLDEST := 2.13.4
SCRAPY_OTHERS := 2.15.0 2.17.0

INSTALLED_FROM := pyproject.toml constraints.txt scripts/install.sh
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: help demo test test-matrix scrapy-versions lint quick-lint bench bench-crawl docs site chaos mutants clean system

help:
	@echo "make demo     a crawl on this machine, start to end, nothing to set up"
	@echo "make test     every check: lint, types, import directions, all tests"
	@echo "make test-matrix  the workers' tests on every supported Scrapy"
	@echo "make lint     only the checks that need no server"
	@echo "make docs     write the generated pages of docs/reference again, and bring all pages to one width"
	@echo "make site     build the documentation as a website in build/site"
	@echo "make bench    measure the frontier and whole crawls beside Scrapy and scrapy-redis"
	@echo "make chaos    kill servers and workers under load and try random calls, for many minutes"
	@echo "make mutants  break each guarantee on purpose and show that a test fails"
	@echo "make clean    remove everything that make has made"

demo: $(RUN_STAMP)
	@$(BIN)/gossamer demo

# The types are checked beside the tests: that takes most of a minute of one core where nothing is cached. Where no test has been compiled,
# one process does so before the others begin, which would each do it: 7 s of CPU.
test: system quick-lint
	@scripts/scrapy-versions.sh $(VENV) $(SCRAPY_OLDEST)
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true
	@scripts/beside.sh mypy $(BIN)/python scripts/check_types.py -- $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-matrix: $(DEV_STAMP) system scrapy-versions
	@SCRAPY_MATRIX=1 $(BIN)/python -m pytest -n $(WORKERS) tests/scrapy tests/scrapy_redis tests/courier tests/cli/run $(PYTEST_ARGS)

scrapy-versions: $(DEV_STAMP)
	@scripts/scrapy-versions.sh $(VENV) $(SCRAPY_OLDEST) $(SCRAPY_OTHERS)

lint: quick-lint
	@$(BIN)/python scripts/check_types.py

quick-lint: $(DEV_STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

docs: $(DEV_STAMP)
	@$(BIN)/python scripts/generate_docs.py

site: $(DEV_STAMP)
	@$(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# What both of them understand is passed on to the second: BENCH_ARGS=--quick
CRAWL_ARGS ?= $(filter --quick --check,$(BENCH_ARGS))
bench: $(DEV_STAMP) system
	@$(BIN)/python bench/frontier.py $(BENCH_ARGS)
	@$(BIN)/python bench/crawl.py $(CRAWL_ARGS)

bench-crawl: $(DEV_STAMP) system
	@$(BIN)/python bench/crawl.py $(CRAWL_ARGS)

mutants: $(DEV_STAMP) system
	@$(BIN)/python scripts/mutants.py $(MUTANTS_ARGS)

# The long forms of tests/chaos, of the state machine and of other searches at random: CHAOS_ARGS="--rounds 200",
# WORKER_ARGS="--runs 100", CRAWLS_ARGS="--runs 30", PLANNERS_ARGS="--runs 10", MIXTURE_ARGS="--runs 60", MACHINE=100 (times as many examples as in make test).
MACHINE ?= 34
SEARCHES := $(addprefix tests/frontier/contract/machine/test_,state_machine.py attempts.py seen_cache.py partitions.py shares.py page_records.py imports.py) tests/frontier/connection/test_copied_histories.py tests/engine/page/test_change_texts.py tests/engine/rounds/test_gone_model.py tests/sites/file/test_load_fuzz.py tests/migrate/test_neocrawler.py $(addprefix tests/scrapy/,feeds/test_histories.py request/test_objects.py speedups/test_urls.py speedups/test_fingerprint.py)
CONTRACT := $(addprefix tests/frontier/contract/test_,contract.py documents.py mutations.py rounds.py)
chaos: $(DEV_STAMP) system
	@$(BIN)/python scripts/chaos/server.py $(CHAOS_ARGS)
	@$(BIN)/python scripts/chaos/workers.py $(WORKER_ARGS)
	@$(BIN)/python scripts/chaos/crawls.py $(CRAWLS_ARGS)
	@$(BIN)/python scripts/chaos/planners.py $(PLANNERS_ARGS)
	@$(BIN)/python scripts/chaos/mixture.py $(MIXTURE_ARGS)
	@FAULT_FACTOR=10 $(BIN)/python -m pytest tests/chaos/test_worker_faults.py tests/chaos/test_threads.py tests/chaos/test_planned_failover.py
	@MACHINE_FACTOR=$(MACHINE) $(BIN)/python -m pytest $(SEARCHES) -k "not planted"
	@CONTRACT_PLACES=all $(BIN)/python -m pytest -n $(WORKERS) $(CONTRACT)

system:
	@scripts/system-packages.sh $(SYSTEM_PACKAGES)

$(RUN_STAMP): $(INSTALLED_FROM)
	@PYTHON="$(PYTHON)" scripts/install.sh $(VENV) run

$(DEV_STAMP): $(INSTALLED_FROM)
	@PYTHON="$(PYTHON)" scripts/install.sh $(VENV) dev

clean:
	@rm -rf $(VENV) build dist bench/results .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
