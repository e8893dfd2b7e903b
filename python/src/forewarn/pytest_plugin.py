"""pytest fixtures: a Scheduled Events server for each test."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Callable, Iterator, Optional

import pytest

from ._server import Forewarn


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("forewarn", "Forewarn")
    group.addoption("--forewarn-binary", metavar="PATH", help="forewarn program [default: FOREWARN_BINARY or PATH]")
    parser.addini("forewarn_binary", "forewarn program [default: FOREWARN_BINARY or PATH]")


@pytest.fixture(scope="session")
def forewarn_binary(pytestconfig: pytest.Config) -> Optional[str]:
    """Path of the program from `--forewarn-binary` or pytest's configuration; override it to choose another one."""
    return pytestconfig.getoption("--forewarn-binary") or pytestconfig.getini("forewarn_binary") or None


@pytest.fixture
def forewarn_server(forewarn_binary: Optional[str]) -> Iterator[Callable[..., Forewarn]]:
    """A function that starts a server with flags of `forewarn serve`. All servers stop after the test."""
    with ExitStack() as servers:
        yield lambda *flags: servers.enter_context(Forewarn.start(*flags, binary=forewarn_binary))


@pytest.fixture
def forewarn(forewarn_server: Callable[..., Forewarn]) -> Forewarn:
    """A server whose clock moves only with `advance`."""
    return forewarn_server("--clock", "manual")


@pytest.fixture
def forewarn_scaled(forewarn_server: Callable[..., Forewarn]) -> Forewarn:
    """A server with the real clock and one second instead of fifteen minutes of notice."""
    return forewarn_server("--notice-scale", "900")
