#!/usr/bin/env python3
"""Asks what is planned, says what concerns this machine, and approves it.

    query_and_approve.py [API-VERSION]

After the published Python sample. Changed, because it could not run or did not do what it promised:

- Python 3: `urllib.request` for `urllib2`, `print` as a function.
- `eventype` was never defined; it is `eventtype`.
- `headers` was never used and is gone.
- At the comment where logic was to be added, the event is approved, once: while it is Scheduled.
- Version 2017-03-01 shows names with a `_` before them, so that the host's name was never found. One is removed.
- The version may be given; FOREWARN_METADATA names another address than 169.254.169.254.

`Resources` has the names of machines. The sample expects the host to have the same name.
"""

import json
import os
import socket
import sys
import urllib.request

api_version = sys.argv[1] if len(sys.argv) > 1 else "2017-03-01"
base = os.environ.get("FOREWARN_METADATA", "http://169.254.169.254")
metadata_url = base + "/metadata/scheduledevents?api-version=" + api_version
this_host = socket.gethostname()


def get_scheduled_events():
    req = urllib.request.Request(metadata_url)
    req.add_header("Metadata", "true")
    resp = urllib.request.urlopen(req)
    return json.loads(resp.read())


def approve_scheduled_event(eventid, incarnation):
    body = {"DocumentIncarnation": incarnation, "StartRequests": [{"EventId": eventid}]}
    req = urllib.request.Request(metadata_url, json.dumps(body).encode())
    req.add_header("Metadata", "true")
    urllib.request.urlopen(req).read()
    print("+ Approved " + eventid)


def handle_scheduled_events(data):
    for evt in data["Events"]:
        eventid = evt["EventId"]
        status = evt["EventStatus"]
        resources = evt["Resources"]
        eventtype = evt["EventType"]
        notbefore = evt["NotBefore"].replace(" ", "_")
        if api_version == "2017-03-01":
            resources = [name.removeprefix("_") for name in resources]
        if this_host in resources:
            print("+ " + status + " Event. This host is scheduled for " + eventtype + " not before " + notbefore)
            # Here the machine hands over its work.
            if status == "Scheduled":
                approve_scheduled_event(eventid, data["DocumentIncarnation"])


def main():
    data = get_scheduled_events()
    handle_scheduled_events(data)


if __name__ == "__main__":
    main()
    sys.exit(0)
