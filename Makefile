# Two commands, each from nothing: `make demo` and `make test`. Both build their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT := out
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-slow test-slow-part test-x64 mutations lint docs notebooks tables clean

demo: $(VENV)/installed  ## Train Student of Games in Leduc hold'em; measure and plot its exploitability.
	$(BIN)/python -m experiments sog_leduc --preset quick --out $(OUT)/demo --overwrite

test: $(VENV)/installed-test  ## The fast tests (minutes).
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/installed-test  ## The long tests.
	$(BIN)/python -m pytest -m slow -n auto --dist loadfile

# Which part of the slow tests: another every hour, by the time of the commit, so that one commit
# always has the same part, in a shallow clone too.
PARTS := 360
PART = $(shell echo $$(( $$(git log -1 --format=%ct 2>/dev/null || echo 0) / 3600 % $(PARTS) )))

test-slow-part: $(VENV)/installed-test  ## Some of the long tests, chosen by the commit (a minute).
	$(BIN)/python -m pytest -m slow --slow-part $(PART)/$(PARTS) -n auto --dist worksteal

test-x64: $(VENV)/installed-test  ## Games and solvers with JAX's 64-bit mode on.
	JAX_ENABLE_X64=1 $(BIN)/python -m pytest \
	    tests/test_check_game.py tests/test_small_games.py tests/test_cfr.py

mutations: $(VENV)/installed-test  ## Small faults put into the code, which the fast tests must notice (an hour).
	$(BIN)/python tests/mutate.py --out $(OUT)/mutations

lint: $(VENV)/installed-test  ## Style, and the tables of docs/results.md against the committed results.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m experiments tables --check

tables: $(VENV)/installed  ## The tables of docs/results.md from the committed results.
	$(BIN)/python -m experiments tables

docs: $(VENV)/installed-docs  ## The site, in out/site; any warning is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

notebooks: $(VENV)/installed-notebooks  ## Runs the notebooks and keeps what they print and draw.
	PYTHONPATH=. $(BIN)/python -m nbconvert --to notebook --execute --inplace docs/notebooks/*.ipynb

clean:
	rm -rf $(VENV) $(OUT)

# Debian's python3 comes without ensurepip unless python3-venv is there too: then pip, which is
# there, installs itself into the new environment.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    $(PYTHON) -m venv --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(VENV)/bin/python install pip; }

# pip compiles what it installs on one core: `compileall` does so on all of them.
define install
	$(BIN)/python -m pip install --quiet --no-compile -e "$(1)"
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@
endef

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(call install,.)

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(call install,.[test])
	touch $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(call install,.[docs])
	touch $(VENV)/installed

$(VENV)/installed-notebooks: pyproject.toml | $(VENV)/bin/python
	$(call install,.[notebooks])
	touch $(VENV)/installed $(VENV)/installed-docs

comma := ,
$(VENV)/installed-ci: pyproject.toml | $(VENV)/bin/python  # for tests and site at once
	$(call install,.[test$(comma)docs])
	touch $(VENV)/installed $(VENV)/installed-test $(VENV)/installed-docs
