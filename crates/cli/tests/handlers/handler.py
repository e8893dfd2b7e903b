"""A handler with selectable bugs: handler.py [BUG...]. Without any, it behaves correctly.

It uses only the standard library and polls the fixed metadata address.
"""

import http.client
import json
import socket
import sys
import time
import urllib.error
import urllib.request

BASE = "http://169.254.169.254/metadata"
EVENTS = BASE + "/scheduledevents?api-version=2020-07-01"
NAME = BASE + "/instance/compute/name?api-version=2021-02-01&format=text"
FAULTS = set(sys.argv[1:])
KNOWN = {"Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"}
INTERVAL = 40 if "slow" in FAULTS else 0.5


def ask(url, body=None, headers=None):
    known = {} if "no-header" in FAULTS else {"Metadata": "true"}
    request = urllib.request.Request(url, data=body, headers={**known, **(headers or {})})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers, answer.read()


def my_name():
    if "trusts-its-host-name" in FAULTS:
        return socket.gethostname()
    while "no-header" not in FAULTS:
        try:
            return ask(NAME)[1].decode()
        except OSError:
            time.sleep(INTERVAL)


class Handler:
    def __init__(self):
        self.name = my_name()
        self.etag = None
        self.prepared = {}
        self.approved = set()

    def poll(self):
        headers = {"If-None-Match": self.etag} if self.etag and "no-etag" not in FAULTS else {}
        try:
            answer, body = ask(EVENTS, headers=headers)
        except urllib.error.HTTPError as error:
            if error.code == 304 and "304-is-an-error" not in FAULTS:
                return
            if error.code == 304 or "dies-of-errors" in FAULTS:
                sys.exit(f"HTTP {error.code}")
            if "gives-up" in FAULTS:
                time.sleep(1000)
            return
        except (OSError, http.client.HTTPException):
            if "dies-of-errors" in FAULTS:
                sys.exit("no answer")
            return
        try:
            document = json.loads(body)
        except ValueError:
            return
        self.etag = answer["ETag"]
        self.look_at(document["Events"])

    def look_at(self, events):
        for event in events:
            mine = self.name in event["Resources"]
            if event["EventType"] not in KNOWN and "knows-all-types" in FAULTS:
                raise KeyError(event["EventType"])
            if not mine and "approves-others" not in FAULTS:
                continue
            self.handle(event)
        there = {event["EventId"] for event in events}
        for gone in set(self.prepared) - there:
            del self.prepared[gone]
            if "misses-the-end" not in FAULTS:
                print("restored", gone, flush=True)

    def handle(self, event):
        id = event["EventId"]
        if id not in self.prepared and "approves-first" not in FAULTS:
            self.prepare(id)
        if event["EventStatus"] == "Scheduled" and id not in self.approved and "never-approves" not in FAULTS:
            key = "StartRequest" if "wrong-body" in FAULTS else "StartRequests"
            body = json.dumps({key: [{"EventId": id}]}).encode()
            try:
                ask(EVENTS, body)
                self.approved.add(id)
            except (OSError, http.client.HTTPException):
                return
        if id not in self.prepared:
            time.sleep(3)
            self.prepare(id)

    def prepare(self, id):
        self.prepared[id] = True
        print("prepared", id, flush=True)


handler = Handler()
while True:
    handler.poll()
    time.sleep(INTERVAL)
