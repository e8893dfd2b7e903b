#!/usr/bin/env bash
# Applies each patch of this directory, one at a time, to a copy of the crate and runs both simulations on it.
# Fails if the simulation does not find a bug, or if a patch does not apply or compile.
#
#   crates/core/planted/run.sh            all bugs
#   crates/core/planted/run.sh 07 gate    only bugs whose file name contains one of these words
#
# FOREWARN_SIM_SEEDS is the number of simulated runs per bug (default 300).
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=${PLANTED_TARGET_DIR:-$work/target}
export RUST_BACKTRACE=0

mkdir -p "$work/crates"
cp "$root/Cargo.lock" "$work/"
sed -e 's/^members = .*/members = ["crates\/core"]/' -e '/^default-members/d' "$root/Cargo.toml" >"$work/Cargo.toml"
cp -R "$root/crates/core" "$work/crates/"
cd "$work" || exit 1

# Only these tests count: other tests may find the bug too, but are not under test here.
simulate() {
    cargo test --quiet --package forewarn-core --test sim -- runs_ seeds_ drains_ >"$work/log" 2>&1
}

wanted() {
    [ $# -eq 1 ] && return 0
    local name=$1 word
    shift
    for word in "$@"; do
        case $name in *"$word"*) return 0 ;; esac
    done
    return 1
}

if ! simulate; then
    cat "$work/log"
    echo "the simulation fails without a planted bug"
    exit 1
fi

survivors=0
printf '| %-32s | %-8s | %-4s | %s |\n' bug found seed by
printf '|%s|%s|%s|%s|\n' ---------------------------------- ---------- ------ ---
for patch in "$here"/*.patch; do
    name=$(basename "$patch" .patch)
    wanted "$name" "$@" || continue
    by="" seed=""
    if ! git apply "$patch" 2>"$work/log"; then
        found="no patch"
    elif ! cargo test --quiet --package forewarn-core --test sim --no-run >"$work/log" 2>&1; then
        found="no build"
    elif simulate; then
        found=NO
    else
        found=yes
        seed=$(grep -oE '^--- seed [0-9]+' "$work/log" | head -n 1 | grep -oE '[0-9]+')
        by=$(grep -oE 'invariant "[^"]*"|disagreement with the model: [a-z ]*|the model (accepts|refuses)|what is stored is not|not everything ends|another region after a reload|one step is not two|panicked: .{0,40}|one too many|refused after a tick|a refusal changed|has two orders|two hosts claim|nothing is known of|accepted from a fenced host' "$work/log" |
            sort | uniq -c | sort -rn | head -n 1 | sed -e 's/^ *[0-9]* //')
    fi
    [ "$found" = yes ] || survivors=$((survivors + 1))
    printf '| %-32s | %-8s | %-4s | %s |\n' "$name" "$found" "$seed" "$by"
    rm -rf crates/core/src
    cp -R "$root/crates/core/src" crates/core/src
done
[ "$survivors" -eq 0 ] || echo "$survivors bugs were not found"
exit $((survivors > 0))
