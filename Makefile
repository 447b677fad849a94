# make setup | demo | test | check | bench | docs | wheel. Each target sets up what it needs; the second time is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test check bench docs wheel clean

# The explorer is built where web/ has changed since: by the system's Node, or by the one that PyPI carries.
setup: $(STAMP)
	@$(BIN)/python scripts/build_web.py

# The stamp is newer than what it depends on, so an unchanged project sets up nothing.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $(STAMP)

demo: setup
	$(BIN)/saccade train rnnsearch_dates

test: setup
	$(BIN)/python -m pytest -q -n 2

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/build_web.py --check

bench: setup
	$(BIN)/python benchmarks/additive_cpu/run.py
	$(BIN)/python benchmarks/threads/run.py

docs: setup
	$(BIN)/zensical build --strict --clean
	@echo "open build/docs/index.html"

wheel:
	PYTHON=$(PYTHON) scripts/try_wheel.sh train.updates=20

clean:
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache
