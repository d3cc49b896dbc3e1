# Everything starts from python3 (3.11 or newer, with venv) and make. The environment is made on first use.
PYTHON ?= python3
BIN    := .venv/bin
export UV_PYTHON_DOWNLOADS = never

PG_TESTS    := tests/postgres $(wildcard tests/drivers/postgres)
PG_VERSIONS := 16 18 $(if $(wildcard /usr/lib/postgresql/15/bin/postgres),15)

.PHONY: help demo test test-all faults browser debian-packages check lint mutants simulate bench docs clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.venv/.ready: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@test -x .uv/bin/uv || { echo "making the environment (once) ..."; $(PYTHON) -m venv .uv && .uv/bin/pip install -q --disable-pip-version-check uv; }
	@.uv/bin/uv sync -q --frozen --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	@touch $@

demo: .venv/.ready  ## a thousand jobs on a fresh SQLite file, workers killed on the way, nothing lost
	@$(BIN)/python -m windlass demo

test: .venv/.ready browser  ## all tests but the slow ones, on one PostgreSQL
	$(BIN)/python -m pytest -n 2

test-all: export WINDLASS_ALL_ORDERS = 1
test-all: export WINDLASS_MODEL_EXAMPLES = 150
test-all: .venv/.ready debian-packages  ## the tests of PostgreSQL on every version there is, then those that `make test` leaves out
	@set -e; for version in $(PG_VERSIONS); do \
	  echo "PostgreSQL $$version"; WINDLASS_PG=$$version $(BIN)/python -m pytest -n 2 $(PG_TESTS); done
	$(BIN)/python -m pytest -n 2 -m full

faults: .venv/.ready debian-packages  ## every fault, the slow ones too: killed, stopped, cut off, out of time
	FAULTS_PAGE=docs/operations/faults.md $(BIN)/python -m pytest -n 2 -m "" tests/faults

browser:
	@tools/debian_packages.sh chromium

debian-packages:
	@tools/debian_packages.sh

lint: .venv/.ready  ## formatting, lint, types, layers, generated docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/contract.py --check
	$(BIN)/python tools/cli_reference.py --check
	$(BIN)/python tools/http_reference.py --check
	$(BIN)/python tools/requirements.py --check

mutants: .venv/.ready  ## plant bugs and see that the suites catch each of them
	$(BIN)/python tests/mutants.py

simulate: .venv/.ready  ## ten thousand seeds: workers on virtual time, under every fault, judged after each call
	$(BIN)/python -m windlass.testing.simulator --seeds 0:10000 --reach-all

check: export WINDLASS_SIM_SECONDS = 20
check: lint test  ## lint, all tests, planted bugs: what must pass before a change lands
	$(BIN)/python tests/mutants.py --first --healthy --seconds=45

bench: .venv/.ready  ## the store and the workers beside a bare loop on the same schema
	$(BIN)/python bench/run.py --quick

docs: .venv/.ready  ## write the generated pages again
	$(BIN)/python tools/contract.py
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/http_reference.py
	$(BIN)/python tools/requirements.py

clean:  ## remove the environment and what tests left behind
	rm -rf .venv .uv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
