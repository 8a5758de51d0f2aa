# Each target does everything it needs on a fresh clone: venv, install, run.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# One thread per process: the tests run in as many processes as there are cores.
# Strict: a broken link, anchor or name ends it. It takes about ten seconds.
DOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-all lint format docs pictures release paper clean

$(VENV)/.ready: pyproject.toml benchmarks/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	# torch and torchvision in one call: a torchvision wheel works only with the torch build it was made for. What is
	# installed already stays, such as the smaller build without CUDA: make VENV=$$VIRTUAL_ENV test
	$(BIN)/python -c "import torch, torchvision" 2>/dev/null || $(BIN)/python -m pip install --quiet torch torchvision
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps -e benchmarks
	touch $@

demo: $(VENV)/.ready
	$(BIN)/residapt demo

test: $(VENV)/.ready
	$(TEST_ENV) $(BIN)/python -m pytest -n auto --dist worksteal

# On every supported Python that is there, and with the oldest supported versions: unit tests, an environment for each.
test-all:
	scripts/test_all.sh

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(DOCS) --quiet --site-dir $(VENV)/site

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.ready
	$(DOCS)

# The paper's tables at the paper's length, in the order of docs/research/paper.md: days on one core. The same command
# goes on where it was stopped. The second run keeps freed memory, which saves SvhNet an eighth of its time.
DATA ?= $(RESIDAPT_DATA)
CACHE ?= run-bench
BENCH := nice -n 12 env $(TEST_ENV) $(BIN)/residapt bench
paper: $(VENV)/.ready
	$(BENCH) run paper-networks --keep-networks --data $(DATA) --cache $(CACHE)
	$(BENCH) run paper-tries paper-orders --data $(DATA) --cache $(CACHE)
	MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 $(BENCH) run paper-svhnet --data $(DATA) --cache $(CACHE)
	$(BENCH) run paper-office31-resnet50 paper-orders-flipped paper-grid paper-oracle paper-restarts \
	    --data $(DATA) --cache $(CACHE)
	MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 $(BENCH) run paper-svhnet-seeds \
	    --data $(DATA) --cache $(CACHE)
	$(BENCH) run paper-own-recipes paper-sweeps paper-drones-tries paper-drones --data $(DATA) --cache $(CACHE)
	$(BENCH) report paper -o docs/research/paper.md

# Drawn again by the commands they show; Chromium takes the pictures of pages.
pictures: $(VENV)/.ready
	$(BIN)/python scripts/make_pictures.py

# Wheel and sdist in dist/, checked; nothing is uploaded. It needs a clean tree.
release: $(VENV)/.ready
	$(BIN)/python scripts/release.py

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
