#!/usr/bin/env bash
# Runs both simulations of the rules on each planted bug.
#
#   crates/core/planted/run.sh            all bugs
#   crates/core/planted/run.sh 07 gate    only bugs whose file name contains one of these words
crate=core
needed=()
simulation=(--package forewarn-core --test sim)
counted=(runs_ seeds_ drains_)
messages='invariant "[^"]*"|disagreement with the model: [a-z ]*|the model (accepts|refuses)|what is stored is not|something has not finished|another region after a reload|one step is not two|panicked: .{0,40}|one too many|refused after a tick|a refusal changed|has two orders|two hosts claim|nothing is known of|accepted from a fenced host|accepted from an earlier epoch|an order from before its fence'
. "$(dirname "$0")/../../test-support/planted.sh"
