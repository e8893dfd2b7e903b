"""The Python sample of the seeds, on Python 3, with the address changed and one leading `_` stripped.

Where the sample says "Add logic for handling events here", it approves, as the sentence before it promises.
"""

import json
import os
import socket
import sys
import urllib.request

metadata_url = os.environ["METADATA"] + "/metadata/scheduledevents?api-version=2017-03-01"
this_host = socket.gethostname()


def get_scheduled_events():
    req = urllib.request.Request(metadata_url)
    req.add_header("Metadata", "true")
    resp = urllib.request.urlopen(req, timeout=10)
    data = json.loads(resp.read())
    return data


def approve(eventid, incarnation):
    body = {"DocumentIncarnation": incarnation, "StartRequests": [{"EventId": eventid}]}
    req = urllib.request.Request(metadata_url, json.dumps(body).encode())
    req.add_header("Metadata", "true")
    urllib.request.urlopen(req, timeout=10).read()
    print("+ Approved " + eventid)


def handle_scheduled_events(data):
    for evt in data["Events"]:
        eventid = evt["EventId"]
        status = evt["EventStatus"]
        resources = [name.removeprefix("_") for name in evt["Resources"]]
        eventtype = evt["EventType"]
        notbefore = evt["NotBefore"].replace(" ", "_")
        if this_host in resources:
            print("+ Scheduled Event. This host is scheduled for " + eventtype + " not before " + notbefore)
            if status == "Scheduled":
                approve(eventid, data["DocumentIncarnation"])


def main():
    data = get_scheduled_events()
    handle_scheduled_events(data)


if __name__ == "__main__":
    main()
    sys.exit(0)
