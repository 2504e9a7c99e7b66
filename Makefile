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

test: test-tool test-engine ## Lint, type-check and run every test: the tool's, then the in-tree runners' on real vLLM

test-tool: lint ## The same without the tests that need torch or vLLM
	$(BIN)/python -m pytest -n auto -m 'not engine'

clean: ## Remove the environment and what the tools leave
	rm -rf $(VENV) .venv-vllm-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

include bench.mk
include proof.mk
include engine.mk
include port.mk
include kills.mk
