# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
SAMPLE ?= .sample
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready
# One worker more than cores uses the time in which tests wait for processes and pages; each further one imports and
# collects all tests once more, and saves little.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
THEIRS := $(VENV)/servers

# Where Python may not keep what it compiled, as in many containers, every process that a test starts compiles all again.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run test test-rest test-all test-quick test-lowest stress faults check static lint docs browser redis screenshots servers format clean

# A sample project in $(SAMPLE), some work done in it, and the server that shows it.
# `exec`: make sends its signals to the shell of the recipe, which would end without the server.
run: $(RUNS)
	@exec env PATH="$(abspath $(BIN)):$$PATH" SAMPLE="$(SAMPLE)" sh docs/sample.sh

test: static browser redis servers
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# What `make test` leaves out: further rows of long tables, and long tests of what shorter tests show.
test-rest: $(READY) browser redis servers
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m rest --timeout=600

# All tests on each version of Python that this machine has, each in an environment of its own.
test-all:
	@for version in 3.11 3.12 3.13 3.14; do found=; \
	  for python in python$$version ~/.pyenv/versions/$$version.*/bin/python; do \
	    "$$python" -c "" 2>/dev/null && found="$$python"; done; \
	  if [ -n "$$found" ]; then $(MAKE) test test-rest PYTHON="$$found" VENV=".venv-$$version" || exit 1; \
	  else echo "skipped: this machine has no Python $$version"; fi; done

# The tests that need no browser and no third-party MCP server, and do not take long.
test-quick: $(READY)
	$(BIN)/pytest -n auto --dist worksteal -m "not browser and not servers and not rest and not slow" $(QUICK)

# The quick tests with the lowest version of each package that pyproject.toml allows: a user's other packages may need it.
# The tools of development need newer ones of a few, which pip reports; only the site of the documents cannot be built so.
test-lowest:
	$(MAKE) .venv-lowest/.ready VENV=.venv-lowest
	.venv-lowest/bin/python -m tests.lowest > .venv-lowest/lowest.txt
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --requirement .venv-lowest/lowest.txt
	$(MAKE) test-quick VENV=.venv-lowest QUICK="--ignore=tests/test_site.py"

# What takes longer than a test may: kills, broken disks, many writers, many trees (docs/project/stress.md).
stress: $(READY)
	$(BIN)/python -m tests.stress

# Plant faults one by one, and run the tests that run their lines until one fails (tests/faults/).
faults: $(READY)
	$(BIN)/python -m tests.faults

# Chromium, for the tests that look at pages; where it cannot be installed they skip and say so.
# Its shell without windows, which Debian has as well, takes half the time for most of them.
browser:
	@for name in chromium chromium-browser google-chrome; do \
	  command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get -qq update && { apt-get -qq install -y chromium-headless-shell >/dev/null 2>&1; \
	    apt-get -qq install -y chromium >/dev/null && exit 0; }; fi; \
	echo "install Chromium to run the tests that look at pages"

# Redis, for the tests of the queue of calls; where it cannot be installed these skip and say so.
redis:
	@command -v redis-server >/dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get -qq update && apt-get -qq install -y redis-server >/dev/null && exit 0; fi; \
	echo "install redis-server to run the tests of the queue"

# The pictures of the README, from the sample project; run it before a release.
screenshots: $(READY) browser
	$(BIN)/python -m tests.screenshots

# MCP servers of others, for the tests that use them; where they cannot be installed these skip and say so.
servers: $(THEIRS)/.ready

$(THEIRS)/.ready: $(READY) $(addprefix fixtures/servers/,package.json package-lock.json .npmrc requirements.txt)
	@mkdir -p $(THEIRS) && cp $(filter fixtures/%,$^) $(THEIRS)
	@(cd $(THEIRS) && npm ci --ignore-scripts --silent) & npm=$$!; \
	$(BIN)/python -m venv --without-pip $(THEIRS)/python \
	  && $(BIN)/pip --python $(THEIRS)/python/bin/python install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --requirement fixtures/servers/requirements.txt; pip=$$?; \
	if wait $$npm && [ $$pip = 0 ]; then touch $@; \
	else echo "install Node and npm to run the tests that use MCP servers of others"; fi

# The site of the documents in build/docs, without network; a warning, such as a link to a missing page, is an error.
docs: $(READY)
	$(BIN)/python -m docs.site

# Format, lint, types, layers, the site of the documents, plain English, and the page about the specification.
check: static
	$(BIN)/pytest -q tests/test_texts.py tests/test_readability.py tests/test_site.py tests/specification/test_requirements.py

# Each takes one core for half a minute on a new machine.
static: $(READY)
	@$(MAKE) --no-print-directory -j2 lint docs

lint: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf $(VENV) .venv-* $(SAMPLE) build dist .*_cache .hypothesis

# What running needs: 117 MB instead of 422 with the tools of development.
$(RUNS): pyproject.toml constraints.txt Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "covalt-git needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "this Python cannot make environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

# Groups of dependencies need a newer pip than some versions of Python bring.
$(READY): $(RUNS)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' --constraint constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev
	@touch $@
