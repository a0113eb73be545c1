# The version of torch, in one place; installed first, so that no larger build is pulled in.
TORCH := torch==2.13.0
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo docs-images test browser flower soak fuzz lint bench clean

demo: $(READY)
	$(BIN)/anchorfl demo

test: lint
	$(BIN)/pytest

# The pages as Chromium draws them, where there is one.
browser: $(READY)
	$(BIN)/pytest -m browser

# A SuperLink and three SuperNodes as processes, with certificates and keys: about four minutes.
flower: $(READY)
	$(BIN)/pytest -m flower -n 0

# Twenty kills of a run, five of a sweep, fifty damaged checkpoints: about fifteen minutes.
soak: $(READY)
	$(BIN)/pytest -m soak

# Five minutes of coverage-guided fuzzing per reader, fifteen of them.
fuzz: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check 'atheris>=3'
	$(BIN)/python -m tests.fuzz.run 300

bench: $(READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/speed.py --profile

# The pictures of README and docs: from records, from a run of the demo, and of a page as Chromium draws it.
docs-images: $(READY)
	$(BIN)/python -m benchmarks.pictures

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

$(READY): pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis runs
