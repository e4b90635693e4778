# Two targets matter most: `make demo` and `make test`. Both install what they need (Debian 12) and build.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.PHONY: demo test test-all test-core test-asan test-tsan build venv venv-torch packages lint portable bench clean

packages:
	@tools/install_packages.sh

# Makes build/venv where the packages can be had; CMake leaves the Python package out where not.
venv: packages
	@tools/python/setup_venv.sh build

# PyTorch for its tests on the CPU (1.4 GB); without it they are skipped by name.
venv-torch: venv
	@tools/python/setup_torch.sh build

build: venv
	@test -f build/build.ninja -a ! build/venv/.ready -nt build/build.ninja || cmake --preset dev >/dev/null
	@cmake --build build -- --quiet

demo: packages
	@test -f build/build.ninja || cmake --preset dev >/dev/null
	@cmake --build build --target opforge_cli example_host_only -- --quiet
	@tools/demo.sh build

test: build
	@tools/test.sh build

# Everything: all dtypes of the conformance suite, all mutants, and the tests labelled `long`.
test-all: build
	@tools/test.sh build all

# The core alone: no GPU, no Python, no network, an empty environment.
test-core: build
	@env -i PATH=/usr/bin:/bin ctest --test-dir build -L '^(base|tensor|contract|operator|target|artifact|runtime)$$' --output-on-failure -j $(JOBS)

test-asan: packages
	@test -f build-asan/build.ninja || cmake --preset asan >/dev/null
	@cmake --build build-asan -- --quiet
	@tools/test.sh build-asan

test-tsan: packages
	@test -f build-tsan/build.ninja || cmake --preset tsan >/dev/null
	@cmake --build build-tsan -- --quiet
	@tools/test.sh build-tsan

lint: build
	@tools/lint.sh build

portable: packages
	@cmake --preset portable >/dev/null
	@cmake --build build-portable -- --quiet
	@cmake --install build-portable --strip >/dev/null && du -sh build-portable/opforge

clean:
	rm -rf build build-asan build-tsan build-portable
