# Two commands set everything up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Said before anything is made: an environment of the wrong Python would stay.
NEW_ENOUGH = import sys; sys.exit(sys.version_info < (3, 11) and \
	"Python 3.11 or later is needed. Name one: make demo PYTHON=python3.12")

.PHONY: demo test check types tests cases bench bench-peers bench-pictures torture chaos mutants format clean

demo: $(VENV)/demo.stamp
	@sh scripts/demo.sh $(abspath $(BIN))

test: $(VENV)/dev.stamp check types tests

check:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types:
	$(BIN)/mypy
	$(BIN)/pyright

# The suite is many small processes: two at a time fit two cores.
tests:
	$(BIN)/pytest -n 2 --dist worksteal

# The table case number -> test in tests/README.md.
cases:
	$(PYTHON) scripts/cases.py

bench: $(VENV)/dev.stamp
	@mkdir -p .bench
	$(BIN)/python benchmarks/run.py --json .bench/figures.json

# Other systems, each in an environment of its own under .bench, and ours beside them.
bench-peers: $(VENV)/dev.stamp
	@mkdir -p .bench
	$(BIN)/python benchmarks/peers/install.py
	$(BIN)/python benchmarks/run.py --json .bench/peers.json peers

# The pictures and the tables in benchmarks/, from the last runs of the two above.
bench-pictures: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python benchmarks/report.py .bench/figures.json .bench/peers.json

# The long form of the crash, race and property tests.
torture: $(VENV)/dev.stamp
	YS_TORTURE=1 $(BIN)/pytest -o timeout=14400 -n 2 --dist worksteal tests

# Many executions while workers die, stand still, find no room and meet locks: ten minutes.
chaos: $(VENV)/dev.stamp
	$(BIN)/python -m tests.chaos.run

# Plants faults in copies of the product; the simulator and the tests have to find them.
mutants: $(VENV)/dev.stamp
	$(BIN)/python scripts/mutants.py

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python scripts/cases.py

$(VENV)/demo.stamp: pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/demo.stamp

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .bench
