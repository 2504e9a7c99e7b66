# The behaviour of the published runners before and after extraction, on real vLLM (tests/proof/prove_extract.py).
# Takes minutes and some 3.5 GB a release; `make prove-extract PROOF=0.30.0` for one, FAULTS=all for every fault.
PROOF ?= 0.30.0 0.28.0
FAULTS ?= 24

.PHONY: prove-extract

prove-extract: $(VENV)/tool.installed ## Run the published runners before and after extraction on real vLLM, and compare
	$(BIN)/python tests/proof/prove_extract.py $(PROOF) --faults $(FAULTS)
