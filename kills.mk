# Writing runs killed at each call that changes something, and at each of git's own (needs strace). Minutes.
.PHONY: test-kills

test-kills: $(VENV)/test.installed ## Kill every writing command at each of its calls, and print what held
	PYTHONPATH=tests/kills $(BIN)/python tests/kills/killed_runs.py
