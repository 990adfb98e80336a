# Two commands, each from nothing: `make demo` and `make test`. Both build their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := out
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-slow test-x64 lint tables clean

demo: $(VENV)/installed  ## Train Student of Games in Leduc hold'em; measure and plot its exploitability.
	$(BIN)/python -m experiments sog_leduc --preset quick --out $(OUT)/demo --overwrite

test: $(VENV)/installed-test  ## The fast tests (minutes).
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/installed-test  ## The long tests.
	$(BIN)/python -m pytest -m slow -n auto --dist loadfile

test-x64: $(VENV)/installed-test  ## Games and solvers with JAX's 64-bit mode on.
	JAX_ENABLE_X64=1 $(BIN)/python -m pytest -n auto --dist loadfile \
	    tests/test_check.py tests/test_small_games.py tests/test_cfr.py

lint: $(VENV)/installed-test  ## Style, and README's tables against the committed results.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m experiments tables --check

tables: $(VENV)/installed  ## README's results tables from the committed results.
	$(BIN)/python -m experiments tables

clean:
	rm -rf $(VENV) $(OUT)

# Debian's python3 comes without ensurepip unless python3-venv is there too: then pip, which is
# there, installs itself into the new environment.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    $(PYTHON) -m venv --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(VENV)/bin/python install pip; }

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[test]"
	touch $@ $(VENV)/installed
