# The V2 runners that port-v2 writes into a published release next to that release's own V1 runner, on real vLLM
# (tests/proof/prove_port.py). Minutes and some 3.5 GB a release; `make prove-port PORT=0.28.0` for one.
PORT ?= 0.28.0 0.26.0

.PHONY: prove-port

prove-port: $(VENV)/tool.installed ## Run the ported V2 runners next to the release's V1 runner on real vLLM, and compare
	$(BIN)/python tests/proof/prove_port.py $(PORT)
