# gpbench's tasks. `make` alone lists them. Everything runs in .venv, which is made once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One BLAS thread: the pools of NumPy and SciPy spin against each other otherwise.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
DEMO := results/demo

.DEFAULT_GOAL := help
#: wenzel2019-table1 and so on: PAPER-ITEM for each plan that ships.
PLANS := $(patsubst gpbench/papers/%.toml,%,$(sort $(wildcard gpbench/papers/*/*.toml)))
#: More of the command's options: make wenzel2019-table1 OPTIONS="--jobs 8 --max-seconds 60"
OPTIONS ?=
#: step, harness and so on, for each benchmarks/bench_*.py.
BENCHMARKS := $(patsubst benchmarks/bench_%.py,%,$(sort $(wildcard benchmarks/bench_*.py)))
#: What `make bench` leaves out: 10 GB of disk and most of an hour, and environments that are installed on demand.
APART := scale peers
HTML := build/docs
SITE := build/site
.PHONY: help demo docs site test test-kernel test-kernels fuzz stress lint smoke wheel bench bench-quick $(addprefix bench-,$(BENCHMARKS)) clean evidence results reproduce reproduce-quick $(subst /,-,$(PLANS))

help: ## list the tasks
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 16

$(READY): pyproject.toml requirements/lock.txt
	$(PYTHON) -c 'import sys; sys.exit("gpbench needs Python 3.11 or later; got " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY) ## the main job on embedded data: a table and a picture
	@mkdir -p $(DEMO)
	$(BIN)/gpbench run --method pep --method x-gpc --method linear --dataset digits-odd-even --plot $(DEMO)/digits-odd-even.png
	@$(BIN)/gpbench report --dataset digits-odd-even --format markdown --output $(DEMO)/digits-odd-even.md
	@echo "table:   $(CURDIR)/$(DEMO)/digits-odd-even.md"
	@echo "picture: $(CURDIR)/$(DEMO)/digits-odd-even.png"

#: Files or options of pytest: make test TESTS=tests/bench
TESTS ?=

test: $(READY) ## the whole test suite
	$(ONE_THREAD) $(BIN)/python -m pytest $(TESTS)

stress: $(READY) ## minutes of hostile servers and of processes that are killed; seeds of seconds run in the tests
	GPBENCH_STRESS=20 $(ONE_THREAD) $(BIN)/python -m pytest -m slow tests/test_leases.py tests/bench/test_shared_store.py tests/bench/test_crash.py tests/data/test_hostile_servers.py

# Of what is computed; plans, data and commands do no arithmetic of their own.
NUMERICS := tests/optimize tests/model tests/schemes

test-kernel: $(READY) ## the tests of schemes and models under another BLAS kernel than the processor's own
	$(ONE_THREAD) $(BIN)/python tests/kernels.py --second $(NUMERICS)

test-kernels: $(READY) ## the same under each kernel that the processor can run, and made-up roundings: minutes
	$(ONE_THREAD) $(BIN)/python tests/kernels.py $(NUMERICS)

#: Processor minutes a reader of files.
MINUTES ?= 10

fuzz: $(READY) ## hours of mutated files for each reader, against limits of time and memory; seconds of it run in the tests
	$(ONE_THREAD) $(BIN)/python -W ignore tests/fuzz.py --minutes $(MINUTES)
	$(ONE_THREAD) $(BIN)/python -m pytest -m hypothesis --hypothesis-profile=fuzz

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

smoke: $(READY) ## each method on tiny data, through the command line
	$(ONE_THREAD) PATH="$(CURDIR)/$(BIN):$$PATH" sh tests/smoke.sh

# A plan whose data are missing or some of whose cells fail has said so; the others go on, and make fails at the end.
define EVERY_PLAN
@failed=""; for plan in $(PLANS); do \
	echo "== $$plan"; $(ONE_THREAD) $(BIN)/gpbench reproduce $$plan $(1) $(OPTIONS) || failed="$$failed $$plan"; \
done; if [ -n "$$failed" ]; then echo "not without problems:$$failed"; exit 1; fi
endef

reproduce: $(READY) ## every table and figure of the papers: days; goes on where it stopped
	$(call EVERY_PLAN,)

reproduce-quick: $(READY) ## the quick form of each, to see that it runs
	$(call EVERY_PLAN,--quick)

evidence: $(READY) ## what is left of all plans, by value, into results/reference: OPTIONS="--jobs 2", or --list; may be killed at any moment
	$(ONE_THREAD) $(BIN)/python -m gpbench.cli.evidence $(OPTIONS)

results: $(READY) ## results/reproduced and results/README.md anew, from the reference results alone
	$(BIN)/python -m gpbench.report.evidence results

# make PAPER-ITEM, for instance make wenzel2019-table1: one table or figure
define ONE_PLAN
$(subst /,-,$(1)): $(READY)
	$(ONE_THREAD) $(BIN)/gpbench reproduce $(1) $$(OPTIONS)
endef
$(foreach plan,$(PLANS),$(eval $(call ONE_PLAN,$(plan))))

wheel: $(READY) ## build wheel and sdist, check what they hold, and use the wheel outside of the checkout
	$(BIN)/python tests/distribution.py

# A benchmark that fails has said why; the others go on, and make fails at the end.
define EVERY_BENCHMARK
@failed=""; for each in $(1); do \
	echo "== $$each"; $(ONE_THREAD) $(BIN)/python benchmarks/bench_$$each.py $(2) || failed="$$failed $$each"; \
done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi
endef

bench: $(READY) ## speed, as ratios in one run on one BLAS thread; bench-step and so on for one
	$(call EVERY_BENCHMARK,$(filter-out $(APART),$(BENCHMARKS)),)

bench-quick: $(READY) ## each benchmark in a form of seconds, to see that it runs
	$(call EVERY_BENCHMARK,$(BENCHMARKS),--quick)

# make bench-scale: 11,000,000 x 28 generated rows; make bench-peers: rivals from other libraries; and so on
define ONE_BENCHMARK
bench-$(1): $(READY)
	$(ONE_THREAD) $(BIN)/python benchmarks/bench_$(1).py $$(OPTIONS)
endef
$(foreach each,$(BENCHMARKS),$(eval $(call ONE_BENCHMARK,$(each))))

docs: $(READY) ## the documentation as static pages in build/docs; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir $(HTML)

site: $(READY) ## the reference results as static pages in build/site, each linked to the others
	@rm -rf $(SITE)
	$(BIN)/python -m gpbench.report.page.site $(SITE)

clean: ## remove the environment, caches and the demo's output (stored cells stay)
	rm -rf $(VENV) $(DEMO) .mypy_cache .pytest_cache .ruff_cache .hypothesis
