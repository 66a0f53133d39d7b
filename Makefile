# Everything a person types here; `make help` lists it. Nothing needs to be prepared by hand.
SHELL := /bin/bash
HOME_FOLDER := $(shell . scripts/home.sh && echo "$$CEREBRO_HOME")
BIN := $(HOME_FOLDER)/venv/bin
ARGS ?=

.PHONY: help setup demo demo-flights demo-greenplum extension-install test check bench experiments up down clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup:  ## install what is missing: Debian packages, virtual environment, torch, cerebro-db
	@scripts/setup.sh

demo: setup up  ## train 16 configs on Fashion-MNIST inside a private PostgreSQL
	@PATH="$(BIN):$$PATH" scripts/demo.sh

demo-flights: setup up  ## predict which flights are late: numbers, words and rows with NULL
	@PATH="$(BIN):$$PATH" scripts/flights.sh

demo-greenplum: export CEREBRO_DEMO_DSN = $(DSN)
demo-greenplum: setup  ## the demo on a Greenplum whose hosts have the package: DSN='host=... user=gpadmin dbname=cerebro'
	@PATH="$(BIN):$$PATH" scripts/demo_greenplum.sh

extension-install: setup  ## put the files of create extension cerebro into a server: PG_CONFIG=/path/to/pg_config
	@$(MAKE) --no-print-directory -C extension install PYTHON=$(BIN)/python $(if $(PG_CONFIG),PG_CONFIG=$(PG_CONFIG))

test: setup  ## run the tests on throwaway servers, two files at a time; ARGS="-k name" goes to pytest
	@$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

check: setup  ## lint and types
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PATH="$(BIN):$$PATH"; if command -v shellcheck >/dev/null; then \
		shellcheck -x scripts/*.sh docker/shared/*.sh .ci/run; fi
	@PATH="$(BIN):$$PATH"; if command -v hadolint >/dev/null; then hadolint docker/*/Dockerfile; fi

bench: setup  ## measure; one JSON line per measure, fails when a bar is missed
	@$(BIN)/python -m experiments.bench

experiments: setup  ## compare strategies with other ways and with papers: SIZE=small|medium|paper QUESTIONS="rows mixed" DSN=...
	@$(BIN)/python -c "import ray, zstandard" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[experiments]'
	@$(BIN)/python -m experiments --size "$(or $(SIZE),small)" $(if $(DSN),--dsn "$(DSN)") $(QUESTIONS)

up: setup  ## start the embedded server
	@$(BIN)/cerebro-db up

down:  ## stop the embedded server; its data stays
	@$(BIN)/cerebro-db down

clean:  ## remove caches and build leftovers of this checkout; data and environment stay
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
