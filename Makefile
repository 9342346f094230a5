# make help lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
# Debian's: another one that comes first in PATH may be built without optimisation, a fifth slower.
PYTHON ?= /usr/bin/python3
SPEC ?= examples/quickstart.yaml
DB := unix:/run/dnsteer-lab/db.sock
DURATION ?= 600
RIG ?= --junk all

.PHONY: help setup packages python extension model demo test test-bytecode test-quick test-alerts test-servers test-pictures lint lint-python fmt docs docs-servers golden bench-render bench-slots bench-slot-number bench-check bench-check-beside bench-megaflows bench-masks bench-bounds bench-passes bench-verdicts bench-change bench-capacity bench-datapath bench-ext bench-console bench-agent bench-agent-effect bench-agent-flap bench-agent-killed bench-metrics bench-balance bench-spill bench-announce bench-vrrp bench-neighbors bench-workers bench-rig bench-peers comparison bench-vips bench-tracked bench-tracked-lost bench-spill-kept ext ext-programs fuzz-ext valgrind-ext coverage-ext wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' Makefile

setup: ## install packages (root) and the Python environment .venv
	@$(MAKE) --no-print-directory -j 2 packages python

packages:
	@scripts/packages.sh

# Beside the Debian packages, unless Python's own venv is one of those that are missing.
$(BIN)/python: $(shell [ -x $(BIN)/python ] || $(PYTHON) -c 'import ensurepip' 2>/dev/null || echo packages)
	@[ -x $@ ] || $(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

python: $(BIN)/python
	@scripts/python.sh

extension: ## build the DOCA Flow program on its software model, as check, the lab and the demo use it
	@$(MAKE) --no-print-directory -j 2 python model

model: packages
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/extension.sh

demo: extension ## the main job: prove, run in a lab, load with real DNS queries; KEEP=1 keeps the lab and its console (root)
	@scripts/demo.sh $(SPEC) $(DB)

test: ## lint and all tests (root for system tests; half an hour on two cores)
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint ext test-bytecode
	$(BIN)/python -m pytest -n auto

test-bytecode: packages python # once, beside lint: each of pytest's workers would rewrite the assertions of all tests
	@found=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$found"; exit 1; }

test-quick: extension ## while you work: most unit tests and some packet tests, at most 90 s
	$(BIN)/python -m pytest -n 3 --quick

test-pictures: extension ## the layout of the console's pages against pictures, at three sizes (DNSTEER_BROWSER=1; 1 minute)
	$(BIN)/python -m pytest -n 2 --slow tests/packet/test_console.py tests/packet/test_console_in_a_browser.py

test-alerts: extension ## every alert at a real Prometheus, by the fault that it is for (root; 10 minutes)
	$(BIN)/python -m pytest -n 1 --slow tests/packet/test_alerts.py tests/packet/test_alerts_of_pairs.py tests/system/test_alerts_in_the_lab.py

test-servers: extension ## nine kinds of name server in states of health and failure, asked by each default check (root; 3 minutes)
	@scripts/packages.sh servers
	$(BIN)/python -m pytest -n 1 --slow tests/servers tests/system/test_farms.py

lint: lint-python model ## formatting, types, import direction, generated docs and outputs in them, YAML, shell
	$(BIN)/python docs/generate.py --check
	shellcheck scripts/*.sh .ci/run runbooks/roles/dnsteer/files/*.sh

lint-python: python # what needs Python's packages alone, beside the installation of Debian's
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/yamllint --strict examples tests runbooks .yamllint
	cd runbooks && PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline

fmt: setup ## format the Python code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: extension ## regenerate the generated pages, and the outputs of commands in README.md and docs
	$(BIN)/python docs/generate.py

docs-servers: extension ## write into docs/servers.md what nine kinds of name server answer to health checks (root)
	@scripts/packages.sh servers
	$(BIN)/python -m pytest -n 1 --slow --regenerate tests/servers/test_servers.py
	$(BIN)/python docs/generate.py

golden: setup ## regenerate the golden files and expected errors; read the diff
	$(BIN)/python -m pytest -q tests/unit/test_golden.py tests/unit/test_bad_specs.py --regenerate

bench-render: setup ## load, validate, plan, render and apply 1,000 and 10,000 VIPs (JSON)
	$(BIN)/python -m bench.render

bench-slots: setup ## movement and balance of slots against other algorithms (JSON)
	$(BIN)/python -m bench.slots

bench-slot-number: setup ## rules, upcalls and revalidation by the number of slots (JSON)
	$(BIN)/python -m bench.slot_number

bench-check: setup ## check of large specs, whole processes (JSON)
	$(BIN)/python -m bench.check

bench-megaflows: setup ## megaflows, masks and passes with 5,000 clients (JSON)
	$(BIN)/python -m bench.megaflows

bench-masks: setup ## masks that traffic can make of the examples, and that attacks of a minute make (JSON)
	$(BIN)/python -m bench.masks

bench-bounds: setup ## megaflows that kinds of junk make of the examples, beside the most computed for each (JSON)
	$(BIN)/python -m bench.bounds

bench-passes: setup ## datapath flows of 1,000 VIPs of one pool in one pass and in two, made and computed (JSON)
	$(BIN)/python -m bench.passes

bench-verdicts: setup ## what each flavor takes of every datapath flow of the examples, and by which source (JSON)
	$(BIN)/python -m bench.verdicts

bench-change: setup ## 200 random changes, kills and movement under load in the lab (root; JSON)
	$(BIN)/python -m bench.change

bench-capacity: setup ## errors of the capacity model at every published measurement, each left out in turn (JSON)
	$(BIN)/python -m bench.capacity

bench-datapath: setup ## cycles per packet and Mpps of the pipelines on OVS-DPDK, one core (root; JSON)
	$(BIN)/python -m bench.datapath

bench-ext: extension ## the extension: each mode under load, one socket, many clients, changes, its program by itself (root; JSON)
	@PATH="$(CURDIR)/$(BIN):$$PATH" scripts/extension.sh ext-bench
	$(BIN)/python -m bench.extension

bench-console: setup ## CPU time of the agent with browsers at its console, at 4 and 1,000 VIPs (JSON)
	$(BIN)/python -m bench.console

bench-agent: setup ## faults of name servers under load, with the agent and beside it dnsdist (root, dnsdist, nftables; JSON)
	$(BIN)/python -m bench.agent

bench-agent-flap: setup ## the agent with 1,000 backends of which 100 come and go, for DURATION seconds (root; JSON)
	$(BIN)/python -m bench.agent.flap --seconds $(DURATION)

bench-agent-effect: setup ## from the agent's decision to the changed flows, among 122,648 (JSON)
	$(BIN)/python -m bench.agent.effect

bench-balance: extension ## load of servers with Zipf clients, before and after balancing by slots (root; JSON)
	$(BIN)/python -m bench.balance

bench-spill: setup ## a server and an accelerator: alone, ECMP, WRR and spill, at 10 to 100 % of their load (root; JSON)
	$(BIN)/python -m bench.spill

bench-workers: setup ## workers of one host: by the kernel (SO_REUSEPORT), and by the switch, static and balanced (root; JSON)
	$(BIN)/python -m bench.workers

bench-rig: setup ## queries beside junk and lists of denied prefixes: dnsteer, nftables, iptables and dnsdist on the same hops (root; JSON)
	@scripts/packages.sh peers
	$(BIN)/python -m bench.rig $(RIG)

bench-peers: setup ## DNS through dnsteer in each mode and nine others, on the same hops (root; JSON; 20 minutes)
	@scripts/packages.sh peers
	$(BIN)/python -m bench.rig.compare

comparison: setup ## the same, written into docs/comparison.md, with a plot and build/comparison.html (root)
	@scripts/packages.sh peers
	@mkdir -p build
	$(BIN)/python -m bench.rig.compare >build/comparison.json
	$(BIN)/python docs/comparison_page.py build/comparison.json
	$(BIN)/python docs/generate.py

bench-vips: setup ## 1,000 VIPs of one pool under load of all at once, in two passes and in one, beside one VIP (root; JSON)
	$(BIN)/python -m bench.rig.vips $(VIPS)

bench-tracked: setup ## tracked connections: each mode with and without, and nftables DNAT, on the same hops (root; 4 minutes; JSON)
	@scripts/packages.sh peers
	$(BIN)/python -m bench.rig.tracked $(TRACKED)

bench-tracked-lost: setup ## open connections that a restart of ovs-vswitchd, or another switch in its place, resets (root; JSON)
	$(BIN)/python -m bench.rig.lost

bench-spill-kept: setup ## open connections while a server spills slots to an accelerator, kept and not (root; JSON)
	$(BIN)/python -m bench.spill_kept

bench-check-beside: setup ## check of the examples in alternation with that of another source tree OTHER (JSON)
	$(BIN)/python -m bench.check_beside $(OTHER)

bench-announce: setup ## two switches with one VIP behind two BGP routers: time to withdrawal and lost queries by fault (root; JSON)
	$(BIN)/python -m bench.announce

bench-vrrp: setup ## two switches with one VIP on one network, keepalived: time of a take-over and lost queries by fault (root; JSON)
	$(BIN)/python -m bench.vrrp

bench-neighbors: setup ## a router or a backend that is replaced: seconds until its MAC address is followed, lost queries (root; 8 minutes; JSON)
	@$(BIN)/python -m bench.neighbors --repeat 3

bench-metrics: setup ## queries with and without a scrape each 15 s, among 122,648 flows (JSON)
	$(BIN)/python -m bench.metrics

bench-agent-killed: setup ## kill -9 of the agent at 100 moments, under load and changes (root; JSON)
	$(BIN)/python -m bench.agent.killed

wheel: setup ## build the wheel and try it in a clean environment
	scripts/wheel.sh

ext: python ext-programs ## build and test the DOCA Flow program and its software model, under sanitizers
	meson test -C build/ext --no-rebuild --print-errorlogs

# Not optimised: a third of the time to build, and the tests take as long. Warnings that need it come from the build for use.
# Of what is for debuggers, only the lines (-g1), for the sanitizers' traces.
ext-programs: packages $(BIN)/python
	PATH="$(CURDIR)/$(BIN):$$PATH" meson setup $$([ ! -f build/ext/build.ninja ] || echo --reconfigure) -Db_sanitize=address,undefined -Doptimization=0 -Dc_args=-g1 build/ext datapath_ext
	meson compile -C build/ext

fuzz-ext: setup ## ten minutes of libFuzzer for each of the extension's four targets
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/fuzz-ext.sh

valgrind-ext: setup ## the extension's tests under valgrind
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/valgrind-ext.sh

coverage-ext: setup ## lines of the extension's program that its tests run (JSON)
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/coverage-ext.sh

clean: ## remove what was built here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
