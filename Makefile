# The only commands anyone needs to remember. `make` alone lists them.
SHELL := /bin/sh
PYTHON := $(shell sh tools/find-python)
CACHE ?= $(if $(BERTH_CACHE),$(BERTH_CACHE),$(if $(filter 0,$(shell id -u)),/var/cache/berth,$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/berth))
export BERTH_CACHE := $(CACHE)
KUBERNETES_DIR = $(if $(DIR),$(DIR),$(CACHE)/kubernetes/cluster)

.DEFAULT_GOAL := help
.PHONY: help up down install example status backup restore check test test-long bench chaos screens kubernetes kubernetes-down cluster cluster-down lint audit format

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

up: python ## Install, start the platform, run the example on new data   [PORT=8620 PROFILE=production EXTRAS=ldap]
	@$(PYTHON) tools/up.py up $(if $(PORT),--port $(PORT)) $(if $(PROFILE),--profile $(PROFILE)) $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(NO_EXAMPLE),--no-example)

down: python ## Stop the platform; its jobs run on
	@$(PYTHON) tools/up.py down $(if $(PORT),--port $(PORT))

install: python ## All of `make up` but the start: for systemd, see deploy/README.md
	@$(PYTHON) tools/up.py install $(if $(EXTRAS),--extras $(EXTRAS))

example: python ## Submit the example job and follow it
	@$(PYTHON) tools/up.py example $(if $(PORT),--port $(PORT))

status: python ## Say whether the platform runs
	@$(PYTHON) tools/up.py status $(if $(PORT),--port $(PORT))

backup: python ## Back up while the platform runs   [FILE=/mnt/berth.tar ARGS="--with volumes,logs"]
	@$(PYTHON) tools/operate.py backup $(FILE) $(ARGS)

restore: python ## Put the stopped platform back to a backup; what was there is kept   FILE=/mnt/berth.tar
	@$(PYTHON) tools/operate.py restore $(if $(FILE),$(FILE),$(error say which: make restore FILE=...)) $(ARGS)

check: python ## Style, types, and the tests that need no servers: minutes, before each commit
	@$(PYTHON) tools/test.py --only check

test: python ## Install all that the tests need and run them
	@$(PYTHON) tools/test.py

test-long: python ## The same with full lengths and large numbers
	@$(PYTHON) tools/test.py --long

bench: python ## Measure against other systems   [ONLY=P1,P2 ARGS="--jobs 2000"]
	@$(PYTHON) tools/test.py --only bench -- $(ONLY) $(ARGS)

chaos: python ## Break a platform of its own under load   [MINUTES=1 SEED=n ARGS="--profile embedded"]
	@$(PYTHON) tools/test.py --only chaos -- $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

screens: python ## A picture of every page of the portal   [FOLDER=build/screens ONLY=jobs NAMES=hard]
	@$(PYTHON) tools/test.py --only screens -- $(if $(FOLDER),$(FOLDER),build/screens) $(ONLY) $(if $(NAMES),--hard-names)

kubernetes: python ## A Kubernetes control plane with a real node, for development   [DIR=/tmp/k NODES=1 SIMULATED=100]
	@$(PYTHON) tools/test.py --only kubernetes -- up $(KUBERNETES_DIR) $(if $(NODES),--nodes $(NODES)) $(if $(SIMULATED),--simulated $(SIMULATED)) --python

kubernetes-down: python ## Stop it; its data stays
	@$(PYTHON) tools/test.py --only kubernetes -- down $(KUBERNETES_DIR)

cluster: python ## Kubernetes and the platform on this machine, and a job that outlives the API server   [PORT=8640 DIR=/srv/trial]
	@$(PYTHON) tools/cluster.py up $(if $(PORT),--port $(PORT)) $(if $(DIR),--directory $(DIR))

cluster-down: python ## Stop both; their data stays   [REMOVE=1 DIR=/srv/trial]
	@$(PYTHON) tools/cluster.py down $(if $(DIR),--directory $(DIR)) $(if $(REMOVE),--remove)

lint: python ## Check style, types and the import contract
	@$(PYTHON) tools/test.py --only lint

audit: python ## Look for known holes in dependencies, and at their licences; 3: not all could be looked at
	@$(PYTHON) tools/test.py --only audit

format: python ## Format the code
	@$(PYTHON) tools/test.py --only format

.PHONY: python
python:
	@test -n "$(PYTHON)"
