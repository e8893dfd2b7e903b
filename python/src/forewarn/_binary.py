"""Finds the `forewarn` program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

BINARY_VARIABLE = "FOREWARN_BINARY"


class BinaryNotFound(Exception):
    """The `forewarn` program does not exist or is not executable."""


def find_binary(path: Optional[Union[str, "os.PathLike[str]"]] = None) -> Path:
    """Return the program at `path`, else the one in the environment variable FOREWARN_BINARY, else the one in PATH."""
    given = path or os.environ.get(BINARY_VARIABLE)
    found = shutil.which(os.fspath(given) if given else "forewarn")
    if found:
        return Path(found).absolute()
    if given:
        raise BinaryNotFound(f"{os.fspath(given)!r} is not an executable program; set {BINARY_VARIABLE} to the path of forewarn")
    raise BinaryNotFound(f"forewarn is not in PATH; install it, or set {BINARY_VARIABLE} to its path")
