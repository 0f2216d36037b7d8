# Every command a person needs. `make` alone lists them.

# Build outputs and the test node live outside the checkout, so that a fresh clone starts warm.
export CAIRN_CACHE ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/cairn
export CARGO_TARGET_DIR ?= $(CAIRN_CACHE)/target
# Seconds for each fuzz target.
export FUZZ_SECONDS ?= 30
# Arguments for the program that run, bench or test starts: make run ARGS="--port 8080"
ARGS ?=

.PHONY: help setup setup-run setup-bitcoind setup-nodeos run test bench lint fuzz fmt clean-cache
.DEFAULT_GOAL := help

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install the tools that building and testing need (as root on Debian; else says what is missing)
	@scripts/setup test

setup-run:
	@scripts/setup run

setup-bitcoind: setup ## build the bitcoind of the tests, once, below the cache folder; prints its path
	@scripts/bitcoind

setup-nodeos: setup ## fetch the nodeos of the tests, once, below the cache folder; prints its path
	@scripts/nodeos

run: setup-run ## index the bundled sample chain, serve it and print the URLs
	cargo run --release -p cairn -- demo $(ARGS)

test: setup ## lints, documentation examples and all tests, against a real bitcoind
	@scripts/test $(ARGS)

bench: setup-run ## measure; prints the tables of bench/RESULTS.md
	cargo build --release -p cairn -p cairn-bench
	cargo run --release -p cairn-bench -- $(ARGS)

lint: setup ## formatting, house rules, clippy, rustdoc; warnings are errors
	@scripts/lint

fuzz: setup-run ## run each fuzz target for FUZZ_SECONDS (30)
	@scripts/setup fuzz
	@scripts/fuzz $(ARGS)

fmt: ## format the source
	cargo fmt --all

clean-cache: ## delete everything built, the test node included
	rm -rf -- "$(CAIRN_CACHE)"
