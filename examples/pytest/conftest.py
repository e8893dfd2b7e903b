"""A Scheduled Events server for each test. Copy this file to your tests. It requires only `forewarn` in PATH.

    def test_handler(forewarn):
        web = forewarn.machine("web_0")
        event = web.schedule("Reboot")
        my_handler(web.endpoint)              # in place of http://169.254.169.254
        event.wait_approved()
        forewarn.advance(600)                 # the restart takes ten minutes on the server's clock
        event.wait_finished()
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

# Expires only if a test fails.
TIMEOUT_SECS = 60

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def forewarn():
    """A server whose clock moves only with `advance`."""
    with Forewarn("--clock", "manual") as server:
        yield server


@pytest.fixture
def forewarn_scaled():
    """A server with the real clock and one second instead of fifteen minutes of notice."""
    with Forewarn("--notice-scale", "900") as server:
        yield server


class Forewarn:
    def __init__(self, *flags):
        program = shutil.which("forewarn")
        assert program, "forewarn is not in PATH"
        addresses = ["--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0"]
        command = [program, "serve", "--memory", "--no-auth", "--log-level", "warn", *addresses, *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = (self._process.stdout.readline() for _ in range(2))
        listeners = dict(line.split(maxsplit=1) for line in lines if line)
        assert "management" in listeners, "forewarn did not start; see its output above"
        self.metadata, self.management = listeners["metadata"].strip(), listeners["management"].split()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(TIMEOUT_SECS)
        self._process.stdout.close()

    def call(self, method, path, body=None):
        """Call the management API (docs/api.md). A refused request fails the test with the message of the server."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.management}/api/v1{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _direct.open(request) as response:
                return json.loads(response.read() or "null")
        except urllib.error.HTTPError as refusal:
            message = json.loads(refusal.read())["error"]["message"]
            raise AssertionError(f"{method} {path}: {message}") from None

    def machine(self, name, **more):
        """Create a machine. `more` are fields of NewMachine, such as priority="Spot" or availabilitySet="web"."""
        self.call("POST", "/machines", {"name": name, "addresses": [], **more})
        return Machine(self, name)

    def advance(self, seconds):
        """Advance the manual clock."""
        self.call("POST", "/clock/advance", {"seconds": seconds})

    def inject_fault(self, kind, count=None, seconds=None, percent=None, method=None, machine=None, **given):
        """Inject a fault into requests of all machines: inject_fault("Status", status=503, count=2), inject_fault("Reset").
        docs/faults.md lists all kinds. Without `count` and `seconds` it lasts until `clear_faults`."""
        limits = {"count": count, "forSeconds": seconds, "percent": percent, "method": method, "machine": machine}
        body = {"fault": {"kind": kind, **given}, **{key: value for key, value in limits.items() if value is not None}}
        self.call("POST", "/faults", body)

    def clear_faults(self):
        self.call("DELETE", "/faults")


class Machine:
    def __init__(self, server, name):
        self.server, self.name = server, name
        self.endpoint = f"{server.metadata}/vm/{name}"

    def document(self):
        """Fetch the machine's document. Like a request of a handler, this enables events for the machine."""
        url = f"{self.endpoint}/metadata/scheduledevents?api-version=2020-07-01"
        with _direct.open(urllib.request.Request(url, headers={"Metadata": "true"})) as response:
            return json.loads(response.read())

    def schedule(self, kind):
        """Schedule an event: maintenance for Freeze, Reboot and Redeploy, `evict` for Preempt, `delete` with notice for Terminate."""
        if kind == "Preempt":
            return self.evict()
        if kind == "Terminate":
            self._set_terminate_notice()
            return self.delete()
        self.document()
        body = {"target": {"machine": self.name}, "type": kind}
        return self._event(self.server.call("POST", "/maintenance", body))

    def restart(self):
        return self._request("restart")

    def redeploy(self):
        return self._request("redeploy")

    def evict(self):
        """Evict a machine that was created with priority="Spot"."""
        return self._request("evict")

    def fail(self):
        """Simulate a host failure: an event without notice that has started when it appears."""
        return self._request("hardware-failure")

    def delete(self):
        """Delete the machine. Returns an event if the machine was created with
        terminateNotification={"notBeforeTimeout": "PT5M"}; otherwise the machine is deleted at once and this returns None."""
        self.document()
        event = self._event(self.server.call("DELETE", f"/machines/{self.name}"))
        return event if event.fetch()["visible"] else None

    def inject_fault(self, kind, **more):
        """Inject a fault into requests of this machine; see `Forewarn.inject_fault`."""
        self.server.inject_fault(kind, machine=self.name, **more)

    def requests(self):
        """Requests of the machine, oldest first: method, path, status, approved, faults."""
        return self.server.call("GET", f"/machines/{self.name}/requests")["value"]

    def _request(self, action):
        self.document()
        return self._event(self.server.call("POST", f"/machines/{self.name}/{action}", {}))

    def _set_terminate_notice(self):
        if "terminateNotification" not in self.server.call("GET", f"/machines/{self.name}"):
            notice = {"terminateNotification": {"notBeforeTimeout": "PT5M"}}
            self.server.call("PATCH", f"/machines/{self.name}", notice)

    def _event(self, operation):
        return Event(self.server, operation["events"][0]["id"])


class Event:
    def __init__(self, server, id):
        self.server, self.id = server, id

    def fetch(self):
        return self.server.call("GET", f"/events/{self.id}")

    def approve(self):
        """Approve the event through the management API, in place of a machine."""
        self.server.call("POST", f"/events/{self.id}/approve", {})

    def cancel(self):
        self.server.call("POST", f"/events/{self.id}/cancel", {})

    def wait_approved(self):
        """Wait for an approval and return who approved, such as guest:web_0."""
        return self._wait("approved", lambda event: event.get("approval"))["approvedBy"]

    def wait_started(self):
        self._wait("started", lambda event: event["status"] != "Scheduled")

    def wait_finished(self):
        """Wait until the event has finished and return its outcome, such as Completed or Canceled."""
        return self._wait("finished", lambda event: event.get("outcome"))

    def _wait(self, goal, check):
        end = time.monotonic() + TIMEOUT_SECS
        while not (found := check(event := self.fetch())):
            assert "outcome" not in event, f"the event has finished and was not {goal}: {event}"
            assert time.monotonic() < end, f"the event was not {goal} in time: {event}"
            time.sleep(0.01)
        return found
