# Two commands do all the set-up: `make demo` and `make test`. `make help` lists the rest.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
CARGO ?= cargo
# pip installs packages while cargo compiles. The lock keeps two pips from changing one environment at once.
MAKEFLAGS += --jobs=2
# Cargo has its own job server and must not inherit make's.
unexport MAKEFLAGS MFLAGS
PIP = flock $(BIN) $(BIN)/pip install --quiet --disable-pip-version-check
# Prints how long a step took.
TIMED := sh tools/timed
# As pip's build has it, so that the module's binding is compiled once.
export PYO3_PYTHON := $(abspath $(BIN)/python)
# What runs say that they were measured with.
export OVERSIDE_COMMIT := $(shell git describe --always --dirty --abbrev=12 '--exclude=*' 2>/dev/null)

# Debian packages: what the build links, and what the tests drive. DPDK (`libdpdk-dev` and the
# `librte-` packages) and UCX (`libucx-dev`) may be left out: then there are no devices of theirs.
BUILD_PACKAGES := g++ pkg-config python3-venv zlib1g-dev libisal-dev libhyperscan-dev libre2-dev \
	libdpdk-dev librte-meta-compress librte-meta-dma libucx-dev
TEST_PACKAGES := chromium poppler-utils lz4 pigz zstd isal ripgrep sysbench tabix iproute2 iperf3 perftest \
	bubblewrap redis-server redis-tools memcached libmemcached-tools etcd-server openssh-server
# What modes of a card are made of; without it their tests skip. For `make test-rdma` alone: it takes a
# machine whose kernel has vhost, and the virtual one has.
NETWORK_PACKAGES := openvswitch-switch openvswitch-switch-dpdk dpdk-dev librte-net-virtio23 \
	librte-net-af-packet23

SOURCES := $(shell find crates python profiles boxes facts scenarios -type f -not -name '*.pyc' -not -name '*.so' -not -path '*.egg-info/*' 2>/dev/null) \
	Cargo.toml Cargo.lock pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-miri test-aarch64 test-glibc test-rdma lint bench clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(BIN)/.installed ## install what is missing, build, and put `overside` into .venv/bin

$(BIN)/.system-build:
	@$(TIMED) sh tools/system-packages $(BUILD_PACKAGES)
	@mkdir -p $(BIN) && touch $@

$(BIN)/.system-test: $(BIN)/.system-build
	@$(TIMED) sh tools/system-packages $(TEST_PACKAGES)
	@touch $@

$(BIN)/python: | $(BIN)/.system-build
	$(PYTHON) -m venv $(VENV)

# Cargo says what it compiles; pip would keep that to itself. What pip asks for is there by then. The
# command and the module are built at once, so that neither waits for the other's last crate.
$(BIN)/.built: $(SOURCES) | $(BIN)/python
	@echo 'building the command and the Python module: five to twelve minutes the first time' >&2
	@$(TIMED) $(CARGO) build --locked --release --package overside --package overside-py
	@touch $@

# What the package needs of PyPI, to be built and to be used.
$(BIN)/.requirements: pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import tomllib; all = tomllib.load(open("pyproject.toml", "rb")); print(*all["build-system"]["requires"], *all["project"]["dependencies"], sep="\n")' >$@.txt
	@$(TIMED) $(PIP) -r $@.txt
	@touch $@

$(BIN)/.requirements-test: tests/requirements.txt docs/requirements.txt | $(BIN)/.requirements
	@$(TIMED) $(PIP) -r tests/requirements.txt -r docs/requirements.txt
	@touch $@

$(BIN)/.installed: $(BIN)/.built $(BIN)/.requirements
	@rm -rf build # modules that are no more would be installed again
	@$(TIMED) $(PIP) --no-build-isolation --no-deps .
	@touch $@

$(BIN)/.installed-test: $(BIN)/.installed $(BIN)/.requirements-test $(BIN)/.system-test
	@touch $@

demo: setup ## measure this machine with boxes/quick.json and write a report
	$(BIN)/overside run boxes/quick.json

test: test-rust test-python ## all quick tests

# Half of the time tests wait, so those in Rust run beside those in Python. What they print comes at their end.
.PHONY: test-built test-rust test-python
test-built: setup-test
	@$(TIMED) $(CARGO) test --locked --release --workspace --no-run --quiet

test-rust: test-built
	@$(TIMED) $(CARGO) test --locked --release --workspace --no-fail-fast --quiet >target/test-rust.log 2>&1; \
		code=$$?; cat target/test-rust.log; exit $$code

test-python: test-built
	@$(TIMED) $(BIN)/python -m pytest -m 'not long' -n 3 --durations=25

test-long: setup-test ## the tests that take longer, and all with debug assertions
	$(CARGO) test --locked --workspace --no-fail-fast --quiet
	RUSTC_WORKSPACE_WRAPPER= RUSTFLAGS="--cfg loom" $(CARGO) test --locked -p overside-device -p overside-link --release --lib --quiet \
		--target-dir target/loom loom
	@tools/miri-check
	$(BIN)/python -m pytest --minutes=1

test-miri: ## what touches memory by itself under Miri, where that can be had
	@tools/miri-check

test-aarch64: setup-test ## build for 64-bit Arm and run its tests under emulation, where that can be had
	@tools/aarch64-check
	$(BIN)/python -m pytest -q -rs tests/python/core/test_nodes_aarch64.py

test-glibc: ## build with glibc 2.31, without DPDK and UCX, and let an agent work there
	@tools/glibc-check

test-rdma: setup-test ## RDMA in software, and modes of a card that take vhost, in a virtual machine, where that can be had
	@sh tools/system-packages $(NETWORK_PACKAGES) || echo 'some modes of a card: not checked' >&2
	@tools/with-debian-kernel $(abspath $(BIN)/python) -m pytest -q -rs tests/python/measure/test_rdma.py \
		tests/python/measure/test_network.py::test_a_hop_is_built_and_leaves_nothing || \
		{ code=$$?; [ $$code -eq 77 ] || exit $$code; echo 'RDMA: not checked'; }

.PHONY: setup-test
setup-test: $(BIN)/.installed-test

lint: setup-test ## rustfmt, clippy, ruff, mypy, phrases that are hard to read, and the size of the tree
	$(CARGO) fmt --all --check
	@tools/same-features
	@tools/check-structure
	@$(TIMED) $(CARGO) clippy --locked --release --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(TIMED) $(BIN)/mypy
	@$(TIMED) $(BIN)/python tools/check-phrases

bench: setup-test ## the speed that the documentation promises, as ratios
	$(CARGO) bench --locked -p overside-backend-cpu --bench contract
	$(CARGO) bench --locked -p overside-placement
	$(CARGO) bench --locked -p overside-compress --bench submitters
	$(CARGO) bench --locked -p overside-backend-remote
	$(CARGO) bench --locked -p overside-model --bench events --bench kv --bench predict
	$(CARGO) bench --locked -p overside-link --bench link
	$(CARGO) bench --locked -p overside-kv --bench store --bench server
	$(BIN)/python benches/harness.py
	$(PIP) -r benches/requirements.txt
	$(CARGO) bench --locked -p overside-flow --bench partition --bench pipeline
	$(CARGO) bench --locked -p overside-flow-service --bench slowed
	$(BIN)/python benches/partition.py
	$(BIN)/python benches/partition.py --files $(BIN)/overside
	$(CARGO) run --locked --release --manifest-path benches/peers/Cargo.toml # DataFusion takes 18 CPU minutes to build
	$(BIN)/python benches/compression.py
	$(BIN)/python benches/memory.py
	$(BIN)/python benches/network.py
	-$(BIN)/python benches/kv_model.py --overside $(BIN)/overside # a goal missed is printed
	$(BIN)/python benches/flow_ingest.py $(BIN)/overside

.PHONY: model-figures
model-figures: ## compute the widths of the model's intervals and what it gets wrong, for docs/measure/model.md
	$(CARGO) run --locked --quiet -p overside-model --example model-figures
	$(CARGO) run --locked --quiet -p overside-model --example model-figures

.PHONY: shim
shim: ## compile the DPDK shim against this DPDK, and against Debian 13's, which has LZ4
	@sh tools/check-shim
	@sh tools/check-shim trixie

.PHONY: dist
dist: setup ## build and try what is given away: wheel, Debian packages, native commands for x86-64 and Arm
	@tools/dist

.PHONY: docs
docs: setup ## build the documents as a site, build/site/index.html, which needs no network
	$(PIP) -r docs/requirements.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean: ## remove what was built
	rm -rf target $(VENV) build python/*.egg-info
