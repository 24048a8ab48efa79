# make setup   make .venv, with everything that the project and its tests need
# make demo    train TransEvolve on generated sentence pairs and translate with it
# make test    run the tests
# make test-python PYTHON=python3.X   run the tests on another Python, in .venv-python3.X
# make test-wheel   build the wheel, install it into an empty environment, and use it from another folder
# make bench-check   compare quick measurements of speed with docs/quick.json; on a quiet machine
# make test-xla   run fairseq's TPU mode on a CPU, by torch_xla, in .venv-xla (7 GB)
# make lint    check style, formatting, types, and what GitHub reads
# make docs    build the site from README, docs, examples and docstrings, into the folder site
# make notebook   run all cells of examples/tour.ipynb
# make dist    build the source distribution and the wheel into dist, and check what PyPI will show
# make clean   remove all that make has made
#
# PYTHON=...   the interpreter to make .venv with (3.10 to 3.13); by default python3, or where that is
#              another version the newest of these on PATH, or what uv downloads. For 3.12 on x86-64
#              Linux nothing is compiled.
#
# pip's own environment variables apply. On a machine without a GPU, point PIP_EXTRA_INDEX_URL at an
# index of CPU builds: the default one has CUDA builds of torch, a download of several GB.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/complete

DIST := build==1.6.1 twine==7.0.0

XLA := torch==2.9.0 torch_xla==2.9.0 torchaudio==2.9.0

.PHONY: setup demo test test-python test-wheel test-xla bench-check lint docs notebook dist clean

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 8 --dist loadfile --durations=10

test-python:
	@[ -n "$(PYTHON)" ] || { echo "make test-python: give PYTHON=python3.X" >&2; exit 2; }
	@VENV=$(VENV)-$(notdir $(PYTHON)) PYTHON="$(PYTHON)" scripts/setup.sh
	$(VENV)-$(notdir $(PYTHON))/bin/python -m pytest -q --numprocesses auto --maxprocesses 8 --dist loadfile

test-wheel: $(STAMP)
	@PYTHON="$(PYTHON)" scripts/test_wheel.sh

bench-check: $(STAMP)
	$(BIN)/odeformers benchmark --quick --check docs/quick.json

test-xla:
	@[ -e $(VENV)-xla/complete ] || VENV=$(VENV)-xla TORCH="$(XLA)" PYTHON="$(PYTHON)" scripts/setup.sh
	PJRT_DEVICE=CPU $(VENV)-xla/bin/python -m pytest -q tests/test_xla.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/*.yml

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 PYTHONWARNINGS=ignore::DeprecationWarning $(BIN)/mkdocs build --strict

notebook: $(STAMP)
	$(BIN)/jupyter-execute examples/tour.ipynb

# Without the stamp: to build takes neither torch nor fairseq.
dist:
	$(or $(PYTHON),python3) -m venv --clear $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet $(DIST)
	rm -rf dist
	$(VENV)-dist/bin/python -m build
	$(VENV)-dist/bin/twine check --strict dist/*

clean:
	rm -rf $(VENV) $(VENV)-* build demo-out dist site *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): scripts/setup.sh Makefile setup.py pyproject.toml constraints/ci.txt
	@PYTHON="$(PYTHON)" scripts/setup.sh
