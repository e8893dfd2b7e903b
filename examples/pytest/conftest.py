"""A server of Scheduled Events for each test. Copy this file into your tests; it needs `forewarn` in PATH and nothing else.

    def test_handler(forewarn):
        web = forewarn.machine("web_0")
        event = web.schedule("Reboot")
        my_handler(web.endpoint)              # in place of http://169.254.169.254
        event.wait_approved()
        forewarn.advance(600)                 # the restart takes ten minutes, on the server's clock
        event.wait_gone()
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

# Only reached when a test fails.
PATIENCE_SECS = 60

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def forewarn():
    """Its clock stands still until `advance` moves it."""
    with Forewarn("--clock", "manual") as server:
        yield server


@pytest.fixture
def forewarn_in_a_hurry():
    """Its clock is the real one, and fifteen minutes of notice are a second."""
    with Forewarn("--notice-scale", "900") as server:
        yield server


class Forewarn:
    def __init__(self, *flags):
        program = shutil.which("forewarn")
        assert program, "forewarn is not in PATH"
        addresses = ["--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0"]
        command = [program, "serve", "--memory", "--no-auth", "--log-level", "warn", *addresses, *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = dict(line.split(maxsplit=1) for line in (self._process.stdout.readline() for _ in range(2)) if line)
        assert "management" in said, "forewarn did not start; its words are above"
        self.metadata, self.management = said["metadata"].strip(), said["management"].split()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(PATIENCE_SECS)
        self._process.stdout.close()

    def call(self, method, path, body=None):
        """The management API: docs/api.md. What it refuses fails the test with its sentence."""
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.management}/api/v1{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _direct.open(request) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as refusal:
            message = json.loads(refusal.read())["error"]["message"]
            raise AssertionError(f"{method} {path}: {message}") from None

    def machine(self, name, **more):
        """A new machine; `more` is what NewMachine takes: priority="Spot", availabilitySet="web"."""
        self.call("POST", "/machines", {"name": name, "addresses": [], **more})
        return Machine(self, name)

    def advance(self, seconds):
        self.call("POST", "/clock/advance", {"seconds": seconds})

    def fault(self, kind, count=None, seconds=None, percent=None, method=None, machine=None, **given):
        """Let requests of all machines go wrong: fault("Status", status=503, count=2), fault("Delay", delaySeconds=2),
        fault("Reset"); all kinds are in docs/faults.md. Without count and seconds until `clear_faults`."""
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
        """What the machine sees; like its handler's requests this turns events on."""
        url = f"{self.endpoint}/metadata/scheduledevents?api-version=2020-07-01"
        with _direct.open(urllib.request.Request(url, headers={"Metadata": "true"})) as answer:
            return json.loads(answer.read())

    def schedule(self, kind):
        """Freeze, Reboot or Redeploy, by the platform; Preempt is `evict`, Terminate is `delete` with notice."""
        if kind == "Preempt":
            return self.evict()
        if kind == "Terminate":
            self._announce_deletion()
            return self.delete()
        self.document()
        body = {"target": {"machine": self.name}, "type": kind}
        return self._event(self.server.call("POST", "/maintenance", body))

    def restart(self):
        return self._act("restart")

    def redeploy(self):
        return self._act("redeploy")

    def evict(self):
        """The machine must have been made with priority="Spot"."""
        return self._act("evict")

    def fail(self):
        """The hardware breaks: no notice, the event is Started from the beginning."""
        return self._act("hardware-failure")

    def delete(self):
        """Announced when the machine was made with terminateNotification={"notBeforeTimeout": "PT5M"}; otherwise it is gone
        at once, and None comes back."""
        self.document()
        event = self._event(self.server.call("DELETE", f"/machines/{self.name}"))
        return event if event.facts()["shown"] else None

    def fault(self, kind, **more):
        """Let requests of this machine go wrong; as `Forewarn.fault`."""
        self.server.fault(kind, machine=self.name, **more)

    def requests(self):
        """What the machine has asked, oldest first: method, path, status, approved, faults."""
        return self.server.call("GET", f"/machines/{self.name}/requests")["value"]

    def _act(self, action):
        self.document()
        return self._event(self.server.call("POST", f"/machines/{self.name}/{action}", {}))

    def _announce_deletion(self):
        if "terminateNotification" not in self.server.call("GET", f"/machines/{self.name}"):
            notice = {"terminateNotification": {"notBeforeTimeout": "PT5M"}}
            self.server.call("PATCH", f"/machines/{self.name}", notice)

    def _event(self, operation):
        return Event(self.server, operation["events"][0]["id"])


class Event:
    def __init__(self, server, id):
        self.server, self.id = server, id

    def facts(self):
        return self.server.call("GET", f"/events/{self.id}")

    def approve(self):
        """From outside, in place of a machine."""
        self.server.call("POST", f"/events/{self.id}/approve", {})

    def cancel(self):
        self.server.call("POST", f"/events/{self.id}/cancel", {})

    def wait_approved(self):
        """Who approved it: guest:web_0."""
        return self._wait("approved", lambda facts: facts.get("approval"))["by"]

    def wait_started(self):
        self._wait("started", lambda facts: facts["status"] != "Scheduled")

    def wait_gone(self):
        """How it ended: Completed, Canceled."""
        return self._wait("over", lambda facts: facts.get("outcome"))

    def _wait(self, what, look):
        end = time.monotonic() + PATIENCE_SECS
        while not (found := look(facts := self.facts())):
            assert "outcome" not in facts, f"the event is over and was not {what}: {facts}"
            assert time.monotonic() < end, f"the event was not {what}: {facts}"
            time.sleep(0.01)
        return found
