.PHONY: bench
bench: $(VENV)/test.installed ## Time the command line and measure its memory
	$(BIN)/python benchmarks/bench_cli.py --json build/bench_cli.json
