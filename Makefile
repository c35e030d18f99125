# Everything installs itself: `make run` and `make test` work on a bare checkout.

PYTHON ?= python3
UV := .tools/uv/bin/uv
# Files beside the index (a local mirror holds one wheel of many) would be all that is pinned of a package.
COMPILE := env -u UV_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS $(UV) pip compile --quiet --upgrade --generate-hashes --universal --no-emit-index-url \
	--python-version 3.11
CODE := $(wildcard src tests tools benchmarks)
# Tests make and drop thousands of files and databases: in memory, where that has room for them.
IN_MEMORY := $(shell df -Pk /dev/shm 2> /dev/null | awk 'NR == 2 && $$4 > 8000000 { print "TMPDIR=/dev/shm" }')
# Without compiled modules each start of the tests reads all of them anew, which takes longer than most tests.
COMPILED := PYTHONDONTWRITEBYTECODE=
# One more than there are cores: some tests wait for processes that they started or killed.
SPREAD := --dist worksteal -n $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)")
PYTEST := $(IN_MEMORY) $(COMPILED) .venv/bin/pytest $(SPREAD)

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.PHONY: help setup setup-dev run check test test-long coverage fuzz lint lint-style lint-types format demo gallery wheel bench measure pin lock clean

help: ## Show what there is
	@printf 'Quillpost. The commands:\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

setup: ## Install Quillpost into .venv, all that it needs and no more
	@$(PYTHON) tools/bootstrap.py run

setup-dev:
	@$(PYTHON) tools/bootstrap.py dev

run: setup ## Start the service, the workers and the database, and print where to look
	@.venv/bin/quillpost serve --welcome

check: ## Run the checks and the tests, as CI does
	@$(MAKE) lint
	@$(MAKE) test

test: setup-dev ## Run the tests; ONLY=orders for one folder, SHUFFLE=7 for a random order
	@$(PYTEST) -m "not long" $(addprefix tests/,$(ONLY)) $(addprefix --shuffle=,$(SHUFFLE))

test-long: setup-dev ## Run the proofs that take long; ONLY=end_to_end for one folder
	@$(PYTEST) -m long $(addprefix tests/,$(ONLY))

coverage: setup-dev ## Run the tests and show which lines and branches they miss
	@$(IN_MEMORY) $(COMPILED) .venv/bin/coverage run -m pytest $(SPREAD) -m "not long"
	@.venv/bin/coverage combine --quiet
	@.venv/bin/coverage report

fuzz: setup-dev ## Make thousands of odd calls; EXAMPLES=n for each operation
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),200) $(PYTEST) --timeout=3600 \
		tests/web/api/test_api_fuzz.py tests/web/api/test_odd_values.py tests/orders/test_order_lifecycle.py \
		tests/orders/test_order_totals.py

lint: setup-dev ## Check format, style, types, the direction of imports and the API's description
	@$(MAKE) -j 2 --output-sync=target lint-style lint-types

lint-style:
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/ruff check $(CODE)
	$(COMPILED) .venv/bin/lint-imports
	$(COMPILED) .venv/bin/python tools/lint_openapi.py

lint-types:
	$(COMPILED) .venv/bin/mypy

format: setup-dev ## Put the code into our format
	@.venv/bin/ruff check --fix-only --quiet $(CODE)
	@.venv/bin/ruff format $(CODE)

demo: setup ## Send one of each piece in testing mode and follow it to the door
	@.venv/bin/quillpost demo

gallery: setup ## Draw every hand and every piece into out/gallery
	@.venv/bin/quillpost hands out/gallery

wheel: setup ## Build a wheel that is the whole product into dist/
	@$(PYTHON) tools/bootstrap.py wheel

bench: setup-dev ## Measure ourselves against peers; ONLY=name for one table
	@$(PYTHON) tools/bootstrap.py bench
	@.venv/bin/python -m benchmarks $(ONLY)

measure: setup-dev ## Measure how human and how legible the hands are; NOTES=30 to read only so many notes
	@.venv/bin/python -m tools.handwriting $(addprefix --notes ,$(NOTES))

pin: setup-dev ## Record again what users, clients and operators see, for an intended change
	@$(IN_MEMORY) .venv/bin/python tools/pin_interface.py

lock: setup-dev ## Pin the newest versions of everything that we depend on
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) pyproject.toml -o requirements/run.txt
	$(COMPILE) pyproject.toml --extra dev -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) requirements/s3.in -o requirements/s3.txt
	$(COMPILE) requirements/bench.in -o requirements/bench.txt
	$(COMPILE) requirements/node.in -o requirements/node.txt
	npm update --package-lock-only --no-audit --no-fund

clean: ## Remove what was installed and built; your data in var/ stays
	rm -rf .venv .tools .mypy_cache .ruff_cache .hypothesis .import_linter_cache out node_modules
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
