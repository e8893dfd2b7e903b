# Plants known bugs in a crate, one at a time, and expects its simulation to find each of them. Fails if the simulation does
# not find a bug, or if a patch does not apply or compile. Sourced by crates/*/planted/run.sh, which sets:
#
#   crate         directory of the crate in crates/
#   needed        directories of other crates that it is built with
#   simulation    arguments of `cargo test` that select the simulation
#   counted       filters for the tests that count: others may find the bug too, but are not under test here
#   messages      regular expression of the messages that name the check that found a bug
#
# FOREWARN_SIM_SEEDS is the number of simulated runs per bug. The arguments are parts of the file names of bugs.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR=${PLANTED_TARGET_DIR:-$work/target}
export RUST_BACKTRACE=0

mkdir -p "$work/crates"
cp "$root/Cargo.lock" "$work/"
sed -e "s/^members = .*/members = [\"crates\/$crate\"]/" -e '/^default-members/d' "$root/Cargo.toml" >"$work/Cargo.toml"
for part in "$crate" "${needed[@]}"; do
    cp -R "$root/crates/$part" "$work/crates/"
done
cd "$work" || exit 1

build() {
    cargo test --quiet "${simulation[@]}" --no-run >"$work/log" 2>&1
}

simulate() {
    cargo test --quiet "${simulation[@]}" -- "${counted[@]}" >"$work/log" 2>&1
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
for patch in "$root/crates/$crate/planted"/*.patch; do
    name=$(basename "$patch" .patch)
    wanted "$name" "$@" || continue
    by="" seed=""
    if ! git apply "$patch" 2>"$work/log"; then
        found="no patch"
    elif ! build; then
        found="no build"
    elif simulate; then
        found=NO
    else
        found=yes
        seed=$(grep -oE '^--- seed [0-9]+' "$work/log" | head -n 1 | grep -oE '[0-9]+')
        by=$(grep -oE "$messages" "$work/log" | sort | uniq -c | sort -rn | head -n 1 | sed -e 's/^ *[0-9]* //')
    fi
    [ "$found" = yes ] || survivors=$((survivors + 1))
    printf '| %-32s | %-8s | %-4s | %s |\n' "$name" "$found" "$seed" "$by"
    for part in src tests; do
        rm -rf "crates/$crate/$part"
        cp -R "$root/crates/$crate/$part" "crates/$crate/$part"
    done
done
[ "$survivors" -eq 0 ] || echo "$survivors bugs were not found"
exit $((survivors > 0))
