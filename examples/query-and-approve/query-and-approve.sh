#!/bin/sh
# Lists the events that affect this machine and approves them.
#
#     query-and-approve.sh [API-VERSION]
#
# Based on the published curl commands. Additions that turn the two commands into a program:
#
# - Reads the event IDs from the document with jq.
# - Approves only Scheduled events that name this host. Removes the `_` that version 2017-03-01 puts before names.
# - Exits on an HTTP error (`--fail`) and hides curl's progress (`-sS`).
# - Accepts the API version as an argument and another endpoint in FOREWARN_METADATA.
set -eu

api_version=${1:-2017-03-01}
url="${FOREWARN_METADATA:-http://169.254.169.254}/metadata/scheduledevents?api-version=$api_version"
this_host=$(hostname)
underscore=
[ "$api_version" = 2017-03-01 ] && underscore=_

document=$(curl -sS --fail -H Metadata:true "$url")
ours='.Events[] | select(.Resources | map(ltrimstr($underscore)) | index($host))'
chosen() { printf %s "$document" | jq -r --arg host "$this_host" --arg underscore "$underscore" "$ours | $1"; }

chosen '"+ \(.EventStatus): \(.EventType) of this host, not before \(.NotBefore)"'

# Drain the machine here.

incarnation=$(printf %s "$document" | jq -r .DocumentIncarnation)
for id in $(chosen 'select(.EventStatus == "Scheduled") | .EventId'); do
    approval='{"DocumentIncarnation":"'$incarnation'", "StartRequests": [{"EventId": "'$id'"}]}'
    curl -sS --fail -H Metadata:true -X POST -d "$approval" "$url"
    echo "+ Approved $id"
done
