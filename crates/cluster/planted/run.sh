#!/usr/bin/env bash
# Runs the simulation of the replicated log on each planted bug.
#
#   crates/cluster/planted/run.sh            all bugs
#   crates/cluster/planted/run.sh 07 gate    only bugs whose file name contains one of these words
crate=cluster
needed=(core test-support)
simulation=(--package forewarn-cluster --no-default-features --test sim)
counted=(runs_lose seeds_)
messages='invariant "[^"]*"|busy without end|panicked: .{0,40}'
export FOREWARN_SIM_SEEDS=${FOREWARN_SIM_SEEDS:-600}
. "$(dirname "$0")/../../test-support/planted.sh"
