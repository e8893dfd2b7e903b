#!/usr/bin/env python3
"""Lists the events that affect this machine and approves them.

    query_and_approve.py [API-VERSION]

Based on the published Python sample, which does not run. Changes:

- Python 3: `urllib.request` instead of `urllib2`, `print` as a function.
- Replaced the undefined variable `eventype` with `eventtype`.
- Removed the unused variable `headers`.
- Approves Scheduled events at the place for custom logic.
- Removes the `_` that version 2017-03-01 puts before names, which hid the host name.
- Accepts the API version as an argument and another endpoint in FOREWARN_METADATA.

The sample expects the host name to be the machine name in `Resources`.
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
            # Drain the machine here.
            if status == "Scheduled":
                approve_scheduled_event(eventid, data["DocumentIncarnation"])


def main():
    data = get_scheduled_events()
    handle_scheduled_events(data)


if __name__ == "__main__":
    main()
    sys.exit(0)
