# Everything starts from python3 (3.11 or newer, with venv) and make. The environment is made on first use.
PYTHON ?= python3
BIN    := .venv/bin
export UV_PYTHON_DOWNLOADS = never
# Tests start hundreds of interpreters: what one has compiled, the next need not, wherever the make was called from.
unexport PYTHONDONTWRITEBYTECODE

# Tests wait for servers, processes and deadlines a third of their time: three share two cores. Each keeps to its own files,
# so that what a file sets up is set up once, and takes from the others' when it has come to its end.
TOGETHER := -n 3 --dist worksteal

PG_TESTS    := tests/postgres $(wildcard tests/drivers/postgres)
PG_VERSIONS := 16 18 $(if $(wildcard /usr/lib/postgresql/15/bin/postgres),15)

# Pages that are made of code: each writes its own, or with --check says that it is out of date.
REFERENCES := contract cli_reference http_reference metrics_reference settings_reference errors_reference events_reference \
              states_reference schema_reference requirements

.PHONY: help demo audit test test-all faults browser debian-packages check lint mutants mutation simulate proof soak bench bench-compare references docs clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.venv/.ready: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@test -x .uv/bin/uv || { echo "making the environment (once) ..."; $(PYTHON) -m venv .uv && .uv/bin/pip install -q --disable-pip-version-check uv; }
	@.uv/bin/uv sync -q --frozen --group docs --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	@touch $@

demo: .venv/.ready  ## a thousand jobs on a fresh SQLite file, workers killed on the way, nothing lost
	@$(BIN)/python -m windlass demo

test: .venv/.ready browser  ## all tests but those marked `full` (slow, or in need of packages), on one PostgreSQL
	@rm -f .pytest_cache/v/cache/lastfailed
	$(BIN)/python -m pytest $(TOGETHER) || $(BIN)/python tools/again.py $$?

test-all: export WINDLASS_ALL_ORDERS = 1
test-all: export WINDLASS_MODEL_EXAMPLES = 150
test-all: .venv/.ready debian-packages  ## the tests of PostgreSQL on every version there is, then those that `make test` leaves out
	@set -e; for version in $(PG_VERSIONS); do \
	  echo "PostgreSQL $$version"; WINDLASS_PG=$$version $(BIN)/python -m pytest -n 2 $(PG_TESTS); done
	$(BIN)/python -m pytest -n 2 -m full

faults: .venv/.ready debian-packages  ## every fault, the slow ones too: killed, stopped, cut off, out of time
	FAULTS_PAGE=docs/operations/faults.md $(BIN)/python -m pytest -n 2 -m "" tests/faults

browser:
	@tools/debian_packages.sh "chromium curl jq"

debian-packages:
	@tools/debian_packages.sh

lint: .venv/.ready  ## formatting, lint, types, layers, generated docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@set -e; for tool in $(REFERENCES); do echo "tools/$$tool.py --check"; $(BIN)/python tools/$$tool.py --check; done

audit: .venv/.ready  ## does a package of the lock file have a known vulnerability? Says "not audited" when that cannot be told
	$(BIN)/python tools/audit.py

mutants: .venv/.ready  ## plant bugs and see that the suites catch each of them
	$(BIN)/python tests/mutants.py

mutation: .venv/.ready  ## every bug that a generator can plant, from where it stopped (SECONDS=600 PARTS=core SHARD=1/4), and its page
	PYTHONPATH=tests $(BIN)/python -m mutation $(PARTS) --seconds=$(or $(SECONDS),600) --shard=$(or $(SHARD),1/1)
	PYTHONPATH=tests $(BIN)/python -m mutation --page

simulate: .venv/.ready  ## ten thousand seeds: workers on virtual time, under every fault, judged after each call
	$(BIN)/python -m windlass.testing.simulator --seeds 0:10000 --reach-all

proof: export PYTHONPATH = tests
proof: .venv/.ready  ## the tests that the guarantees name, `full` ones too, processes under blows, simulated fleets; a report in proof/ (SECONDS=900)
	@tools/debian_packages.sh faketime
	$(BIN)/python -m proof --seconds $(or $(SECONDS),900) $(if $(FIRST),--first $(FIRST))

soak: export PYTHONPATH = tests
soak: .venv/.ready  ## a steady load for MINUTES=30, workers killed now and then: are speed, memory and sizes flat?
	$(BIN)/python -m soak --minutes $(or $(MINUTES),30)

check: export WINDLASS_SIM_SECONDS = 20
check: lint test  ## lint, `make test`, planted bugs for 45 s: what must pass before a change lands
	$(BIN)/python tests/mutants.py --first --healthy --seconds=45

bench: .venv/.ready  ## how fast it is, in three minutes: a table, pictures in bench/out (STORE=postgres for the other store)
	$(BIN)/python bench/run.py --short --store $(or $(STORE),sqlite) --charts bench/out

bench-compare: .venv/.ready  ## is this tree slower than BASE=revision? Both in turn; fails when one is, beyond noise
	$(BIN)/python bench/compare.py $(or $(BASE),HEAD) --store $(or $(STORE),sqlite)

references: .venv/.ready  ## write the generated pages again
	@set -e; for tool in $(REFERENCES); do $(BIN)/python tools/$$tool.py; done

docs: references  ## the generated pages, and the site of the documentation in site/, strictly: no link leads nowhere
	$(BIN)/python tools/docsite.py
	@echo "read it: $(BIN)/python -m http.server -b 127.0.0.1 -d site"

clean:  ## remove the environment and what tests left behind
	@find bench examples src tests tools -name __pycache__ -prune -exec rm -r {} +
	rm -rf site .venv .uv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
