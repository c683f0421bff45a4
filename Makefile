# Each target is a line; `make demo` and `make test` need nothing but Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PORT ?= 8000
# The suite runs in up to four processes (tests/conftest.py); JOBS= runs it in one.
JOBS ?= -n auto --maxprocesses 4 --dist loadfile
# Keep compiled code even if the environment forbids it: otherwise each of the suite's hundreds of processes compiles everything again.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
# Rooms without Django, whose tests need no database.
PURE := simulation/lab simulation/checker simulation/offline simulation/llm simulation/providers ratings/blinding ratings/protocol ratings/stats
BENCHES := offline_steps prompt_caching episodes rater_loop opening million export statistics cold_start audit_waiting sandbox
# uv installs in a tenth of pip's time. Neither compiles the many modules that nothing imports, nor leaves a cache behind.
UV := .tools/bin/uv
PIP := .tools/bin/python -m pip --disable-pip-version-check --no-cache-dir
INSTALL = if test -x $(UV); then $(UV) pip install --quiet --cache-dir .tools/cache --python $(BIN)/python --require-hashes -r $< && rm -rf .tools/cache; else $(PIP) --python $(BIN)/python install --no-compile --require-hashes -r $<; fi

.PHONY: demo paper test quick thorough containers serve worker lint fix bench soak lock audit
.DEFAULT_GOAL := demo

demo: .venv/app ; @exec $(BIN)/python manage.py demo --port $(PORT)
paper: .venv/app ; @exec $(BIN)/python manage.py paper $(if $(MAX_COST),--max-cost $(MAX_COST)) $(ARGS)
serve: .venv/app ; @exec $(BIN)/python manage.py serve --port $(PORT)
worker: .venv/app ; @exec $(BIN)/python manage.py worker
test: .venv/tests ; $(BIN)/python tests/system.py && $(BIN)/python -m pytest $(JOBS) $(ARGS)
quick: .venv/tests ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not thorough" $(PURE:%=tests/%) tests/test_imports.py $(ARGS)
thorough: .venv/tests ; $(BIN)/python tests/system.py && $(BIN)/python -m pytest $(JOBS) -m thorough $(ARGS)
containers: .venv/tests ; $(BIN)/python -m pytest -m container tests/simulation/replication/sandbox $(ARGS)
lint: .venv/tests ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python manage.py makemigrations --check --dry-run
bench: .venv/app ; @missed=0; for name in $(BENCHES); do $(BIN)/python -m bench.$$name || missed=1; done; exit $$missed
soak: .venv/tests ; @$(BIN)/python tests/system.py && PYTHONPATH=. $(BIN)/python tests/soak.py $(ARGS)
fix: .venv/tests ; $(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: .tools/done ; .tools/bin/python tests/lock.py
audit: .tools/done ; @.tools/bin/python tests/audit.py requirements.lock tests/requirements.lock tests/installer.lock

.tools/done: tests/tools.txt | .tools/bin/python
	@$(PIP) install -q -r tests/tools.txt && touch $@

.tools/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "WetBench needs Python 3.11 or newer; name one with PYTHON=")'
	@echo "Installing the packages of WetBench into .venv (once)"
	@$(PYTHON) -m venv .tools

$(UV): tests/installer.lock | .tools/bin/python
	@$(PIP) install --quiet --require-hashes -r $< && touch $@ || echo "uv could not be installed; pip installs the packages, which takes some minutes"

.venv/app: requirements.lock | $(UV)
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip .venv
	@$(INSTALL) && touch $@
.venv/tests: tests/requirements.lock | .venv/app ; @echo "Installing the test tools into .venv (once)"; $(INSTALL) && touch $@
# For servers, whose code may belong to another user than their processes.
.venv/compiled: .venv/app ; @$(BIN)/python -m compileall -qq .venv wetbench_site simulation ratings && touch $@
