"""Example handler: prepares for events of this machine, approves them, and undoes its preparations afterward.

    handler.py [--once] [ENDPOINT]            ENDPOINT defaults to http://169.254.169.254
"""

import json
import sys
import time
import urllib.request

INTERVAL_SECS = 0.1


def call(endpoint, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{endpoint}/metadata/{path}", data, {"Metadata": "true"})
    return urllib.request.urlopen(request).read()


def watch(endpoint, once=False, report=lambda text: print(text, flush=True)):
    machine = call(endpoint, "instance/compute/name?api-version=2021-02-01&format=text").decode()
    prepared = set()
    while True:
        events = json.loads(call(endpoint, "scheduledevents?api-version=2020-07-01"))["Events"]
        mine = {event["EventId"]: event for event in events if machine in event["Resources"]}
        for id, event in mine.items():
            if id not in prepared:
                report(f"prepared for {event['EventType']} {id}")
                prepared.add(id)
            if event["EventStatus"] == "Scheduled":
                approval = {"StartRequests": [{"EventId": id}]}
                call(endpoint, "scheduledevents?api-version=2020-07-01", approval)
        for id in prepared - set(mine):
            report(f"restored after {id}")
            prepared.discard(id)
            if once:
                return
        time.sleep(INTERVAL_SECS)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    addresses = [argument for argument in arguments if argument != "--once"]
    watch(*(addresses or ["http://169.254.169.254"]), once="--once" in arguments)
