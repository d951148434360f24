PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Hundreds of processes of the tests import the library: what one has compiled, the others need not.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-minimal test-collect test-all lint bench docs site package clean

setup: $(READY)

$(READY): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable ./papers
	touch $@

demo: $(READY)
	$(BIN)/hypersphere demo --out runs/demo

test: $(READY)
	$(MAKE) --jobs 2 lint test-minimal test-collect
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# The core dependencies alone: every extra is hidden from the import.
test-minimal: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.minimal

# Imports every test while mypy runs: pytest keeps the assertions it rewrites, and its workers need not do it each.
test-collect: $(READY)
	$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # an error is told by the run itself

test-all: $(READY)
	$(MAKE) --jobs 2 lint test-minimal test-collect
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m ''
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --inputs 1000000 --table docs/robustness.md

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python tools/check_links.py
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/speed.py head --csv benchmarks/results/head.csv
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/recognition.py search

docs: $(READY)
	PYTHONPATH=benchmarks $(BIN)/python tools/build_docs.py
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.notebooks

# The documents, the examples and the docstrings as pages with a search that needs no server: build/site/html.
site: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.build_site

package: $(READY)
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m pytest tests/test_package.py -m slow

clean:
	rm -rf $(VENV) runs build dist .mypy_cache .ruff_cache .pytest_cache src/*.egg-info papers/src/*.egg-info
