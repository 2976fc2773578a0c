# One file of commands: `make` lists them. Only Python 3.11+, pip and make are assumed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
APT_DEPS  := redis-server postgresql kcat chromium chromium-driver krb5-kdc krb5-admin-server libkrb5-dev
BREW_DEPS := redis postgresql kcat chromedriver krb5

# Tests start hundreds of processes; without bytecode each of them compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long unit simulate gauntlet mutants chaos spark-kills lint format bench docs release test-deps clean

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(STAMP) ## build .venv with every extra; does nothing the second time

$(STAMP): pyproject.toml hatch_build.py $(wildcard src/tidelog/speedups.h src/tidelog/*/_speedups.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Tidelog needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@if command -v krb5-config > /dev/null; then $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[kerberos]' || true; fi
	@$(BIN)/python -m compileall -q src
	@touch $@

demo: setup ## a broker, an exactly-once Spark pipeline with rows that fail, a plot of it
	@$(BIN)/tidelog demo

test: setup ## every test but the long ones, the quick ones first
	$(BIN)/python -m pytest tests/unit tests/property -m "not long" -n 2 --dist worksteal -q
	$(BIN)/python -m pytest tests/integration tests/compat -m "not long" -n 4 --dist loadfile --no-loadscope-reorder -q

test-long: setup ## the long variants: crash matrices, fuzzing, other projects' tools
	$(BIN)/python -m pytest tests/property -m "not long" --hypothesis-profile=thorough -n 2 --dist worksteal -q
	$(BIN)/python -m pytest tests/unit tests/property -m long -n 2 --dist worksteal -q
	$(BIN)/python -m pytest tests/integration tests/compat -m long -n 2 --dist loadfile --no-loadscope-reorder -q

unit: setup ## the tests that need no socket and no process (under a minute)
	$(BIN)/python -m pytest tests/unit tests/property -m "not long" -n 2 --dist worksteal -q

simulate: setup ## simulated clusters under faults: SEEDS=100 from FIRST=0, MINUTES=5 instead, or SEED=7 alone; DELAYED=1, SHARES=1
	$(BIN)/python -m tidelog.testing.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first-seed $(FIRST)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(BROKERS),--brokers $(BROKERS)) $(if $(DELAYED),--delayed) $(if $(SHARES),--shares)

gauntlet: setup ## plants known mistakes and shows which seeds and tests find them: ONLY=replication, SEEDS=200, KEEP=1
	$(BIN)/python -m tests.gauntlet $(if $(ONLY),--only $(ONLY)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(KEEP),--keep)

mutants: setup ## changes the pure cores at random and shows which changes no test notices: ROOM=groups, SAMPLE=50, SEED=0
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/python -m tests.mutants $(if $(ROOM),--room $(ROOM)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

chaos: setup ## three real brokers under faults and other people's clients: SCHEDULES=30, or SEED=7 alone
	$(BIN)/python -m tests.compat.chaos $(if $(SEED),--seed $(SEED)) $(if $(SCHEDULES),--schedules $(SCHEDULES)) $(if $(FIRST),--first $(FIRST)) $(if $(JAVA),--java)

spark-kills: setup ## pipelines on a standalone Spark cluster under kills: KILLS=100, SEED=7, MINUTES=30, KEEP=dir
	$(BIN)/python -m tests.integration.spark.kill_matrix $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(KEEP),--keep $(KEEP))

lint: setup ## ruff, mypy (strict for the sources), import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

format: setup ## let ruff rewrite the layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## every figure of benchmarks/RESULTS.md, beside Apache Kafka where Java and Maven are there
	$(BIN)/python -m benchmarks

docs: setup ## write the generated pages, and build the site into build/site; a broken link fails
	$(BIN)/tidelog config reference > docs/configuration.md
	$(BIN)/tidelog from-kafka > docs/from-kafka.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

release: setup ## into dist: a pure wheel, the source distribution, and the list of what an installation holds (SBOM)
	rm -rf dist build/sbom
	TIDELOG_SPEEDUPS=off $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz
	$(PYTHON) -m venv --without-pip build/sbom
	$(BIN)/python -m pip --python build/sbom/bin/python install --quiet --disable-pip-version-check dist/*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/tidelog.cdx.json build/sbom/bin/python

test-deps: ## install what some tests use and skip without: Redis, PostgreSQL, Kerberos, a browser, kcat (apt or brew)
	@if command -v apt-get > /dev/null; then \
	  run=$$(test "$$(id -u)" = 0 || echo sudo); $$run apt-get update -qq && $$run apt-get install -qq --yes $(APT_DEPS); \
	elif command -v brew > /dev/null; then brew install $(BREW_DEPS); \
	else echo "neither apt nor brew is here; install these: $(APT_DEPS)" >&2; exit 1; fi
	@rm -f $(STAMP)

clean: ## remove what the commands above made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
