# Needs Python (3.10 to 3.13, with venv and pip), git and make; everything else goes into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DEMO = omni-migrate extract-adapters vllm-omni==0.30.0 --dry-run --list-sites

.DEFAULT_GOAL := help
.PHONY: help demo test test-tool lint clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/tool.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/test.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/tool.installed

demo: $(VENV)/tool.installed ## Show what would be extracted from the published vllm-omni 0.30.0
	$(BIN)/$(DEMO)

lint: $(VENV)/test.installed ## Lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint ## Lint, type-check and run every test that needs no vLLM (make test-engine runs those that do)
	$(BIN)/python -m pytest -n auto -m 'not engine'

test-tool: lint ## The same without the tests of the in-tree runners
	$(BIN)/python -m pytest -n auto -m 'not engine' --ignore=tests/runners

clean: ## Remove the environment and what the tools leave
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

include bench.mk
include proof.mk
include engine.mk
