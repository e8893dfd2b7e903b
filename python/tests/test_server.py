"""Finding and starting the program, and the fixtures in a project of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import forewarn as package
from forewarn import BinaryNotFound, Forewarn, StartFailed, find_binary

pytest_plugins = ["pytester"]


def test_the_program_is_found_in_this_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = []
    for name in ["given", "variable", "path"]:
        program = tmp_path / name / "forewarn"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        programs.append(program)
    given, variable, path = programs
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.setenv("FOREWARN_BINARY", str(variable))
    assert find_binary(given) == given
    assert find_binary() == variable
    monkeypatch.delenv("FOREWARN_BINARY")
    assert find_binary() == path
    path.chmod(0o644)
    with pytest.raises(BinaryNotFound, match="not in PATH"):
        find_binary()
    with pytest.raises(BinaryNotFound, match="no/such/program"):
        find_binary("/no/such/program")


def test_a_server_that_does_not_start_shows_its_output() -> None:
    with pytest.raises(StartFailed, match="--no-such-flag"):
        Forewarn.start("--no-such-flag")


def test_the_server_stops_and_ignores_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_CLOCK", "invalid")
    with Forewarn.start() as server:
        assert server.clock().manual is False
        assert server.log() == ""
        process = server._process
    assert process.returncode == 0


def test_the_versions_agree() -> None:
    assert metadata.version("forewarn") == package.__version__
    shown = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"\d+\.\d+\.\d+", shown).group() == package.__version__  # type: ignore[union-attr]


def test_the_plugin_takes_the_path_of_the_program(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = str(find_binary())
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    monkeypatch.delenv("FOREWARN_BINARY", raising=False)
    pytester.makepyfile(
        """
        def test_it(forewarn, forewarn_server):
            assert forewarn.clock().manual
            assert forewarn_server().management_url != forewarn.management_url
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(errors=1)
    pytester.runpytest_subprocess("--forewarn-binary", binary).assert_outcomes(passed=1)
    pytester.makeini(f"[pytest]\nforewarn_binary = {binary}\n")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
