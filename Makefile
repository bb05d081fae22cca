# Every target does its own set-up in .venv; once that is done it starts at once.
PYTHON ?= python3
BIN := .venv/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
READY := .venv/.ready
TOOLS := .venv/.tools
PEERS := .venv-peers/.ready
FLOWER := .venv-flower/.ready

# One thread a process: the tests run in two processes, and torch's threads would fight over cores.
export OMP_NUM_THREADS = 1

.PHONY: demo test test-all test-flower lint docs dist bench goldens

# Ten clients with batches of four digits each, 150 rounds; a run that was stopped goes on where it
# was. Two families and one start an attack, to stay within minutes: leave that out for the rest.
demo: $(READY)
	$(BIN)/trilemma tune --workers 2 --out runs/demo --restarts 1 --seeds 3 --strengths 2 \
		--families randomization,randomization+secret-sharing

test: $(TOOLS)
	$(BIN)/pytest -n 2 -q

test-all: $(TOOLS)
	$(BIN)/pytest -n 2 -q -m "slow or not slow"

# What touches Flower, with its newest release.
test-flower: $(TOOLS) $(FLOWER)
	PYTHONPATH=.venv-flower $(BIN)/pytest -n 2 -q tests/deployment tests/tuning/audit \
		tests/protection/transforms/test_update_clipping.py

lint: $(TOOLS)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build/html; a broken link is an error.
docs: $(TOOLS)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# The wheel and the sdist, made twice: the same bytes. Then the wheel answers in an empty environment.
dist: $(TOOLS)
	$(BIN)/python .ci/dist.py

bench: $(TOOLS) $(PEERS)
	for script in $(filter-out %/__init__.py %/peers.py, $(wildcard benchmarks/*.py)); do \
		$(BIN)/python $$script || exit 1; done
	.venv-peers/bin/python benchmarks/peers.py

# Whether this tree measures what the commit BASE does, item by item.
goldens: $(TOOLS)
	$(BIN)/python -m benchmarks.goldens $(BASE)

# What users need; the demo installs no more.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

# What tests, checks and benchmarks need on top.
$(TOOLS): $(READY)
	$(PIP) -e '.[dev,docs,nvflare,postgresql,ray]'
	touch $@

# What benchmarks/peers.py compares with, in an environment of its own.
$(PEERS): pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check \
		-c constraints.txt -r benchmarks/peers.txt -e .
	touch $@

# It needs newer packages than there are everywhere, and runs without them: so it lies over .venv.
$(FLOWER): $(TOOLS)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target .venv-flower flwr==1.42.0
	touch $@
