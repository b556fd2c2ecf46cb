# `make demo` and `make test` need only make and a Python of 3.11 or newer; everything else is put into $(VENV).
#   make VENV=/elsewhere/venv …    use another virtual environment
#   make PYTHON=python3.13 …       make it with another Python
#   make test ARGS="-k queue -x"   pass arguments to pytest

VENV ?= .venv
ARGS ?=
export PYTHON

python := $(VENV)/bin/python
pip := $(python) -m pip install --quiet --disable-pip-version-check --no-input --editable
checked := $(wildcard agentkit examples tests tools)

# Stamps: a new pyproject.toml installs again, everything else is a no-op.
core := $(VENV)/.agentkit-core
shown := $(VENV)/.agentkit-demo
dev := $(VENV)/.agentkit-dev
peers := $(VENV)/.agentkit-benchmarks

.PHONY: setup demo test check check-static format-check lint types layers format bench faults clean

setup: $(dev)

demo: $(shown)
	@$(python) -m examples.coding_agent.demo $(ARGS)

test: $(dev)
	@$(python) -m pytest $(ARGS)

check: check-static test

check-static: format-check lint types layers

format-check: $(dev)
	@$(python) -m ruff format --check --quiet . || { echo "not formatted as 'make format' would" >&2; exit 1; }

lint: $(dev)
	@$(python) -m ruff check --quiet .

types: $(dev)
	@$(python) -m mypy $(checked)

layers: $(dev)
	@$(python) -m tools.layers

format: $(dev)
	@$(python) -m ruff check --quiet --fix-only .
	@$(python) -m ruff format --quiet .

bench: $(peers)
	@$(python) -m benchmarks $(ARGS)

faults: $(dev)
	@$(python) -m pytest tests/faults -m "" $(ARGS)
	@$(python) -m pytest tests/sandbox -m slow $(ARGS)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(core): pyproject.toml tools/make_venv.sh
	@echo "setting up $(VENV)"
	@tools/make_venv.sh "$(VENV)"
	@$(pip) .
	@touch $@

$(shown): $(core)
	@echo "installing what the demo needs"
	@$(pip) '.[demo]'
	@touch $@

$(dev): $(core)
	@echo "installing what tests and checks need"
	@$(pip) '.[dev]'
	@touch $@

$(peers): $(core)
	@echo "installing what the benchmarks compare with"
	@$(pip) '.[benchmarks]'
	@touch $@
