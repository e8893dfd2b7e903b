#!/bin/sh
# Installs Forewarn from a release, after checking its SHA-256.
#
#   install.sh [--agent] [--prefix DIR] [--from URL|DIR]
set -eu

VERSION='@VERSION@'
FROM='@URL@'
NAME=forewarn
PREFIX=

usage() {
    cat <<'END'
Install Forewarn from a release, after checking its SHA-256.

Usage: install.sh [--agent] [--prefix DIR] [--from URL|DIR]

  --agent           Install the guest agent instead of the server and command line
  --prefix DIR      Directory to install to [default: /usr/local as root, else ~/.local]
  --from URL|DIR    Release to install from [default: the release that this script belongs to]
END
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --agent) NAME=forewarn-agent ;;
    --prefix | --from)
        [ $# -ge 2 ] || fail "$1 needs a value"
        if [ "$1" = --prefix ]; then PREFIX=$2; else FROM=$2; fi
        shift
        ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "there is no release for $(uname -s) on $(uname -m); build from source"
[ -n "$FROM" ] || fail "no release to install from; give one with --from URL or --from DIR"
if [ -z "$PREFIX" ]; then
    if [ "$(id -u)" = 0 ]; then PREFIX=/usr/local; else PREFIX=$HOME/.local; fi
fi
# The script changes its directory.
case $PREFIX in /*) ;; *) PREFIX=$PWD/$PREFIX ;; esac

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
DIR=$NAME-$VERSION-x86_64-linux

# $1: name of a file of the release.
fetch() {
    case $FROM in
    http://* | https://* | file://*)
        if command -v curl > /dev/null; then
            curl --fail --silent --show-error --location --output "$WORK/$1" "$FROM/$1" || fail "cannot download $FROM/$1"
        else
            wget -q -O "$WORK/$1" "$FROM/$1" || fail "cannot download $FROM/$1"
        fi
        ;;
    *) cp "$FROM/$1" "$WORK/$1" || fail "cannot read $FROM/$1" ;;
    esac
}

fetch SHA256SUMS
fetch "$DIR.tar.gz"
cd "$WORK"
grep "  $DIR\\.tar\\.gz\$" SHA256SUMS > expected || fail "SHA256SUMS does not list $DIR.tar.gz"
sha256sum --check --status expected || fail "the checksum of $DIR.tar.gz is wrong; nothing was installed"
tar -xzf "$DIR.tar.gz"
cd "$DIR"
find . -type f | while read -r file; do
    mkdir -p "$PREFIX/$(dirname "$file")"
    # A program that is running can be replaced, but not overwritten.
    cp "$file" "$PREFIX/$file.new"
    mv -f "$PREFIX/$file.new" "$PREFIX/$file"
done
echo "Installed $NAME $VERSION in $PREFIX/bin"
case :$PATH: in
*:"$PREFIX/bin":*) ;;
*) echo "Add it to your PATH: export PATH=\"$PREFIX/bin:\$PATH\"" ;;
esac
