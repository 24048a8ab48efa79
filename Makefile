# make setup   make .venv, with everything that the project and its tests need
# make demo    train TransEvolve on generated sentence pairs and translate with it;
#              with CORPUS=multi30k on the captions of Multi30k, downloaded, or of FROM=PATH
# make test    run the tests
# make lint    check style and formatting
# make clean   remove all that make has made
#
# PYTHON=...   the interpreter to make .venv with (3.9 to 3.12)
#
# pip's own environment variables apply. On a machine without a GPU, point PIP_EXTRA_INDEX_URL at an
# index of CPU builds: the default one has CUDA builds of torch, a download of several GB.

PYTHON ?= python3
CORPUS ?= cldr
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/complete
WHEELS := $(VENV)/wheels
PIP := $(BIN)/python -m pip --quiet
PINS := --constraint constraints/ci.txt

.PHONY: setup demo test lint clean

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo/demo.py --corpus $(CORPUS) $(if $(FROM),--from "$(FROM)")

# A process for each core: on models of the size that tests use, more threads are no faster.
test: export OMP_NUM_THREADS ?= 1
test: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 8 --dist worksteal --durations=10

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

clean:
	rm -rf $(VENV) build demo-out dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamp is written last and removed first, so an interrupted set-up starts afresh.
# fairseq builds without torch only (its source distribution lacks the files of the extensions that
# need torch), fairseq-fixed with torch only; pip skips the one that is not for this Python. With
# build isolation, fairseq-fixed would download and build against another torch.
$(STAMP): Makefile setup.py pyproject.toml constraints/ci.txt
	@fail() { echo "make setup: $$1" >&2; exit 1; }; \
	command -v $(PYTHON) >/dev/null || fail "$(PYTHON) not found; set PYTHON to a Python 3.9-3.12"; \
	$(PYTHON) -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 12))' || \
		fail "$(PYTHON) is $$($(PYTHON) --version); set PYTHON to a Python 3.9-3.12"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		fail "$(PYTHON) lacks the modules venv and ensurepip; install them (python3-venv)"; \
	$(PYTHON) -c 'import os, sysconfig as s; open(os.path.join(s.get_path("include"), "Python.h"))' \
		2>/dev/null || fail "$(PYTHON) lacks its C headers; install them (python3-dev)"; \
	for compiler in gcc g++; do command -v $$compiler >/dev/null || \
		fail "$$compiler not found; install it (build-essential)"; done
	@test -f $@ || rm -rf $(VENV)
	@rm -f $@
	@echo "Making $(VENV); compiling fairseq takes most of the time, some minutes."
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	mkdir -p $(WHEELS)
	$(PIP) install $(PINS) pip
	$(PIP) install $(PINS) cython numpy setuptools wheel
	$(PIP) wheel $(PINS) --no-build-isolation --no-deps --wheel-dir $(WHEELS) \
		'fairseq; python_version < "3.11"'
	$(PIP) install $(PINS) torch
	$(PIP) install $(PINS) --no-build-isolation --find-links $(WHEELS) \
		--editable '.[analysis,corpora,demo,plots,test]'
	@touch $@
