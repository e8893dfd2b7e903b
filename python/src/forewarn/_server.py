"""Runs `forewarn serve` for a test."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from types import TracebackType
from typing import IO, Dict, Optional, Type, Union

from ._binary import find_binary
from ._client import Client

# A server starts in well under a second; slow computers get more.
START_SECS_MAX = 60.0
STOP_SECS_MAX = 30.0

ADDRESSES = ("--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0")


class StartFailed(Exception):
    """The server did not start."""


class Forewarn(Client):
    """A running server, and the client for it. State is kept in memory; ports are free ones of the loopback address."""

    def __init__(self, process: subprocess.Popen[str], log: IO[bytes], metadata_url: str, management_url: str) -> None:
        super().__init__(management_url, metadata_url=metadata_url)
        self._process = process
        self._log = log

    @staticmethod
    def start(*flags: str, binary: Optional[Union[str, "os.PathLike[str]"]] = None) -> Forewarn:
        """Start a server with flags of `forewarn serve`, such as "--clock", "manual"."""
        command = [str(find_binary(binary)), "serve", "--memory", "--no-auth", "--log-level", "warn"]
        log = tempfile.TemporaryFile()
        process = subprocess.Popen(
            [*command, *ADDRESSES, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
        listeners = read_listeners(process)
        if "management" not in listeners:
            process.kill()
            stop(process)
            with log:
                raise StartFailed(f"{' '.join(command[:2])} did not start:\n{read(log)}")
        return Forewarn(process, log, listeners["metadata"], listeners["management"])

    def log(self) -> str:
        """What the server has written to standard error."""
        return read(self._log)

    def close(self) -> None:
        """Stop the server."""
        if self._process.poll() is None:
            self._process.terminate()
        stop(self._process)
        self._log.close()

    def __enter__(self) -> Forewarn:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


def environment() -> Dict[str, str]:
    """Settings of the user's own server do not apply to a server for tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}


def read_listeners(process: subprocess.Popen[str]) -> Dict[str, str]:
    """The addresses that the server prints when it is ready: `metadata URL`, then `management URL`. Incomplete if it ends
    before that."""
    assert process.stdout is not None
    late = threading.Timer(START_SECS_MAX, process.kill)
    late.start()
    listeners: Dict[str, str] = {}
    try:
        for line in process.stdout:
            name, _, rest = line.partition(" ")
            listeners.setdefault(name, rest.split()[0] if rest.split() else "")
            if "management" in listeners:
                break
    finally:
        late.cancel()
    return listeners


def stop(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(STOP_SECS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def read(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")
