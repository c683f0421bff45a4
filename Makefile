# Each target is a line; `make demo` and `make test` need nothing but Python 3.11 and make (install.py).
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PORT ?= 8000
# The suite runs in up to four processes (tests/conftest.py); JOBS= runs it in one.
JOBS ?= -n auto --maxprocesses 4 --dist loadfile
# Keep compiled code even if the environment forbids it: otherwise each of the suite's hundreds of processes compiles everything again.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
# Rooms without Django, whose tests need no database.
PURE := simulation/lab simulation/checker simulation/offline simulation/llm simulation/providers ratings/blinding ratings/protocol ratings/stats
BENCHES := offline_steps prompt_caching episodes rater_loop million export statistics cold_start audit_waiting

.PHONY: demo paper test quick thorough serve worker lint fix bench soak lock audit
.DEFAULT_GOAL := demo

demo: .venv/app ; @exec $(BIN)/python manage.py demo --port $(PORT)
paper: .venv/app ; @exec $(BIN)/python manage.py paper $(if $(MAX_COST),--max-cost $(MAX_COST)) $(ARGS)
serve: .venv/app ; @exec $(BIN)/python manage.py serve --port $(PORT)
worker: .venv/app ; @exec $(BIN)/python manage.py worker
test: .venv/tests ; $(BIN)/python tests/system.py && $(BIN)/python -m pytest $(JOBS) $(ARGS)
quick: .venv/tests ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not thorough" $(PURE:%=tests/%) tests/test_imports.py $(ARGS)
thorough: .venv/tests ; $(BIN)/python tests/system.py && $(BIN)/python -m pytest $(JOBS) -m thorough $(ARGS)
lint: .venv/tests ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python manage.py makemigrations --check --dry-run
bench: .venv/app ; @missed=0; for name in $(BENCHES); do $(BIN)/python -m bench.$$name || missed=1; done; exit $$missed
soak: .venv/tests ; @$(BIN)/python tests/system.py && PYTHONPATH=. $(BIN)/python tests/soak.py $(ARGS)
fix: .venv/tests ; $(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: .tools/done ; .tools/bin/python tests/lock.py
audit: .tools/done ; @.tools/bin/python tests/audit.py installer.lock requirements.lock tests/requirements.lock

.tools/done: tests/tools.txt
	@test -x .tools/bin/python || $(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install --disable-pip-version-check -q -r tests/tools.txt && touch $@

.venv/app: requirements.lock ; @$(PYTHON) install.py $< && touch $@
.venv/compiled: .venv/app ; @$(BIN)/python -m compileall -qq .venv wetbench_site simulation ratings && touch $@
.venv/tests: tests/requirements.lock | .venv/app ; @$(PYTHON) install.py $< && touch $@
