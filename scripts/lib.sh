# Shared by the scripts of this folder; sourced, not run.

# Everything heavy (build outputs, the node) lives here, outside the checkout.
CAIRN_CACHE="${CAIRN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cairn}"

# The node that the tests run, by its own version number.
BITCOIND_VERSION=31.99
BITCOIND_DIR="$CAIRN_CACHE/bitcoind-$BITCOIND_VERSION"

# The Antelope node that the tests run, by the version of the wheel that carries it.
NODEOS_WHEEL=0.4.9
NODEOS_DIR="$CAIRN_CACHE/nodeos-$NODEOS_WHEEL"

# fail TEXT...: one clear line, then stop.
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# have COMMAND
have() {
    command -v "$1" >/dev/null 2>&1
}

# Arguments for cargo, in TEST_BUILD, that build Cairn's own crates with little optimisation: they are compiled in half the time, and
# tests wait for nodes and disks. Dependencies keep their level, so `make run` and `make test` share them.
TEST_BUILD=()
for manifest in crates/*/Cargo.toml bench/Cargo.toml; do
    [ -f "$manifest" ] || continue
    package="$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -1)"
    TEST_BUILD+=(--config "profile.release.package.$package.opt-level=1")
done
unset manifest package
