#!/bin/sh
# Asks what is planned, says what concerns this machine, and approves it.
#
#     query-and-approve.sh [API-VERSION]
#
# After the published curl commands. Added, because they are two lines and not a program:
#
# - The ids come from the document, by jq, instead of being typed.
# - Only what is Scheduled and names this host is approved. Version 2017-03-01 puts a `_` before names; it is removed.
# - An answer that is an error ends the script (`--fail`), and curl keeps its progress to itself (`-sS`).
# - The version may be given; FOREWARN_METADATA names another address than 169.254.169.254.
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

# Here the machine hands over its work.

incarnation=$(printf %s "$document" | jq -r .DocumentIncarnation)
for id in $(chosen 'select(.EventStatus == "Scheduled") | .EventId'); do
    approval='{"DocumentIncarnation":"'$incarnation'", "StartRequests": [{"EventId": "'$id'"}]}'
    curl -sS --fail -H Metadata:true -X POST -d "$approval" "$url"
    echo "+ Approved $id"
done
