"""A handler: prepares for events of this machine, approves them, and undoes its preparations when they are over.

    handler.py [--once] [ENDPOINT]            without ENDPOINT http://169.254.169.254
"""

import json
import sys
import time
import urllib.request

INTERVAL_SECS = 0.1


def ask(endpoint, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{endpoint}/metadata/{path}", data, {"Metadata": "true"})
    return urllib.request.urlopen(request).read()


def watch(endpoint, once=False, say=lambda text: print(text, flush=True)):
    me = ask(endpoint, "instance/compute/name?api-version=2021-02-01&format=text").decode()
    prepared = set()
    while True:
        events = json.loads(ask(endpoint, "scheduledevents?api-version=2020-07-01"))["Events"]
        mine = {event["EventId"]: event for event in events if me in event["Resources"]}
        for id, event in mine.items():
            if id not in prepared:
                say(f"prepared for {event['EventType']} {id}")
                prepared.add(id)
            if event["EventStatus"] == "Scheduled":
                approval = {"StartRequests": [{"EventId": id}]}
                ask(endpoint, "scheduledevents?api-version=2020-07-01", approval)
        for id in prepared - set(mine):
            say(f"restored after {id}")
            prepared.discard(id)
            if once:
                return
        time.sleep(INTERVAL_SECS)


if __name__ == "__main__":
    words = sys.argv[1:]
    addresses = [word for word in words if word != "--once"]
    watch(*(addresses or ["http://169.254.169.254"]), once="--once" in words)
