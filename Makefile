# Targets for developers and CI. All of them are plain cargo underneath; see CONTRIBUTING.md.
.PHONY: help build viewer sql cluster portable portable-aarch64 wheel deb release demo test test-sql test-cluster test-azure test-portable setup lint bench faults compare-study hang-study cluster-study frameworks aarch64 host-nccl fuzz docs

help:
	@echo "make build   the program and the preloaded library, in target/release"
	@echo "make viewer  the native viewer, rankscope-viewer, beside them"
	@echo "make sql     the query engine, rankscope-sql, beside them"
	@echo "make cluster  the processes of merges on several machines, rankscope-cluster, beside them"
	@echo "make portable  the files that ship, for every glibc from 2.28 on, in target/portable"
	@echo "make wheel  program, library and Python module for pip, in dist; for this machine's glibc or newer"
	@echo "make deb    the same for Debian and Ubuntu, in dist"
	@echo "make release  all packages of the portable files, with a list of their crates, in dist"
	@echo "make demo    a real 4-rank training under rankscope (SLOW=none|RANK, RUN=directory, RANKSCOPE=installed program)"
	@echo "make test    all tests that need no GPU; installs what it can"
	@echo "make test-sql  lint and tests of the query engine: 6 minutes, nearly all to build it"
	@echo "make test-cluster  lint and tests of merges on several machines: 10 minutes, nearly all to build it"
	@echo "make test-portable  what runs in a job's processes, on the portable files: 10 minutes"
	@echo "make lint    formatting and clippy, warnings are errors"
	@echo "make docs    the book, in target/book; installs mdbook"
	@echo "make bench   the benchmarks"
	@echo "make faults  what is found of faults of known size, and how silent it is without: an hour"
	@echo "make compare-study  how often a comparison is wrong where nothing changed: 40 minutes"
	@echo "make hang-study  how often a verdict on a hang is right, and a healthy job alarms: an hour"
	@echo "make frameworks  trainings of DeepSpeed, Lightning, Ray and others, alone and recorded: 20 minutes"
	@echo "make aarch64  tests on an emulated aarch64; installs a Debian system for it: 20 minutes, and 10 to build"
	@echo "make host-nccl  tests on the real NCCL without a GPU, from its sources: 25 minutes, and 10 to build it once"
	@echo "make fuzz    each fuzz target for FUZZ_SECONDS (60); needs: cargo install cargo-fuzz"

build:
	cargo build --locked --release -p rankscope -p rankscope-interpose

# A separate program: recording and reporting need none of its libraries.
viewer:
	cargo build --locked --release -p rankscope-viewer

# A separate program: the query engine takes longer to build than all of rankscope.
sql:
	cargo build --locked --release -p rankscope-sql

# A separate program: Ballista needs DataFusion, and 60 more libraries.
cluster:
	cargo build --locked --release -p rankscope-cluster

# The files for releases: every glibc from 2.28 on.
portable:
	packaging/portable.sh

# Without PROGRAM and LIBRARY, the packages contain what this machine builds.
PROGRAM ?= target/release/rankscope
LIBRARY ?= target/release/librankscope.so
wheel: build
	packaging/wheel.py --program $(PROGRAM) --library $(LIBRARY)

deb: build
	packaging/deb.py --program $(PROGRAM) --library $(LIBRARY)

# The files for aarch64 are built here, too, if their cross compiler is installed.
CROSS = $(if $(shell command -v aarch64-linux-gnu-gcc),portable-aarch64)
portable-aarch64:
	packaging/portable.sh --machine aarch64

# The packages name the commit that they were built from. With uncommitted changes they name none.
release: export RANKSCOPE_COMMIT ?= $(shell test -z "$$(git status --porcelain)" && git rev-parse HEAD)
release: portable $(CROSS)
	rm -rf dist
	set -e; for files in portable $(CROSS); do \
	    for pack in wheel deb tarball; do \
	        packaging/$$pack.py --program target/$$files/rankscope --library target/$$files/librankscope.so \
	            --viewer target/$$files/rankscope-viewer --writer target/portable/rankscope; \
	    done; \
	    packaging/companion_wheel.py --program target/$$files/rankscope-sql; \
	    packaging/companion_wheel.py --program target/$$files/rankscope-cluster; \
	done
	packaging/sbom.sh dist/rankscope.cdx.json
	cd dist && sha256sum rankscope* > SHA256SUMS

# An installed rankscope does it without compiling anything.
RUN ?= demo-run
RANKSCOPE ?= $(shell command -v rankscope)
demo: $(if $(RANKSCOPE),,build)
	RANKSCOPE=$(RANKSCOPE) examples/ddp/demo.sh $(RUN)

setup:
	tests/setup/system.sh
	tests/setup/python.sh wheel
	tests/setup/python.sh debian
	tests/setup/node.sh
	tests/setup/nccl.sh
	tests/setup/hta.sh
	tests/setup/scipy.sh
	tests/setup/tables.sh
	tests/setup/prometheus.sh
	-tests/setup/notebook.sh
	-tests/frameworks/run.py --install fsdp accelerate

# The tested artefacts are those of `make build`: optimised as the released ones, but without link-time optimisation. The tests
# themselves are development builds, with overflow checks and debug assertions. Plain `cargo test` suffices, without another
# runner. It runs one test program after another. Tests of real processes share few cores, so a lock serialises them
# (tests/src/turn.rs).
test: build setup
	cargo test --locked --workspace --exclude rankscope-sql --exclude rankscope-cluster --no-fail-fast

# The query engine: its libraries alone take four minutes to build and to lint on two cores.
test-sql:
	cargo clippy --locked -p rankscope-sql --all-targets -- -D warnings
	cargo test --locked -p rankscope-sql

# Merges on several machines: processes of a cluster on this one.
test-cluster:
	cargo clippy --locked -p rankscope-cluster --all-targets -- -D warnings
	cargo test --locked -p rankscope-cluster

# Kills an executor in each of 20 merges.
cluster-study:
	cargo test --locked --release -p rankscope-cluster --test merge -- --ignored --nocapture twenty_killed_executors

# Sessions in Azure Blob Storage, on Microsoft's emulator.
test-azure: build
	cargo test --locked -p rankscope-tests --test object_stores -- --ignored azure

# What runs in the processes of a job, on the files for releases.
test-portable: setup
	packaging/portable.sh library program
	RANKSCOPE_ARTEFACTS=target/portable cargo test --locked -p rankscope-tests --no-fail-fast --test do_no_harm --test hostile_surroundings \
	    --test hot_path --test nccl_plugin --test ordinary_programs --test sigkill --test truth_gloo --test truth_nccl --test truth_torch

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --exclude rankscope-sql --exclude rankscope-cluster --all-targets -- -D warnings

# The pages on commands and rules are generated. A test checks that the written ones are up to date.
docs: build
	target/release/rankscope reference docs/book/src/reference
	python3 docs/book/check_links.py
	"$$(tests/setup/mdbook.sh)" build docs/book --dest-dir target/book
	@echo "target/book/index.html"

bench:
	cargo bench --locked -p rankscope-formats --features perfetto --bench perfetto_writer
	tests/benchmarks/call_price.sh
	tests/benchmarks/merge.sh
	tests/benchmarks/axis.sh 10
	tests/benchmarks/import.py
	tests/benchmarks/viewer.sh
	tests/benchmarks/compare.sh
	"$$(tests/setup/python.sh wheel)" tests/benchmarks/overhead.py

# Hundreds of trainings with faults of known size take about an hour, on a machine with nothing else to do.
faults: build
	cargo run --locked --release -p rankscope-tests --bin fault_study

# Records 200 runs of the demo's job, on a machine with nothing else to do.
compare-study: build
	tests/benchmarks/compare.sh study

# Hundreds of trainings that hang, or are slow and healthy, on a machine with nothing else to do.
hang-study: build
	tests/benchmarks/hang_study.py --python "$$(tests/setup/python.sh wheel)" --python "$$(tests/setup/python.sh debian)"

# Installs pinned versions once, into the cache. NAMES="ray-train jax" runs only these.
frameworks: build
	tests/frameworks/run.py $(NAMES)

# Installs an emulator, a cross compiler and a Debian system for aarch64. Needs Debian and root.
aarch64:
	tests/aarch64/run.sh

# Builds five versions of NCCL from the sources in the directory RANKSCOPE_NCCL_SOURCES, and runs all tests on them.
# `make test` runs the short tests, on the versions that are built.
host-nccl: build
	tests/setup/host_nccl.sh
	tests/setup/host_nccl_torch.sh
	cargo test --locked -p rankscope-tests --test 'host_nccl*' -- --include-ignored --nocapture --test-threads 1

# The stable toolchain suffices without a sanitizer, which is of little use for safe code.
FUZZ_SECONDS ?= 60
fuzz:
	cd tests/fuzz && for target in $$(cargo fuzz list); do \
		cargo fuzz run -s none $$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 || exit 1; \
	done
