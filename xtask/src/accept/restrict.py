"""Runs a program under the system call rules of a systemd unit, where systemd does not run.

Usage: restrict.py UNIT PROGRAM [ARGUMENT...]

Applies SystemCallFilter=, SystemCallErrorNumber=EPERM, RestrictAddressFamilies=, MemoryDenyWriteExecute= and NoNewPrivileges=.
"""

import ctypes
import errno
import os
import re
import socket
import subprocess
import sys

NUMBERS = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1

# Offsets in struct seccomp_data.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
AUDIT_ARCH_X86_64 = 0xC000003E

LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


def settings(unit, name):
    """The values of a setting, in their order."""
    with open(unit) as file:
        return [line.split("=", 1)[1].strip() for line in file if line.startswith(name + "=")]


def read_sets():
    """The sets of system calls that systemd knows, such as @system-service."""
    printed = subprocess.run(["systemd-analyze", "--no-pager", "syscall-filter"], check=True, capture_output=True, text=True)
    sets, current = {}, None
    for line in printed.stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            current = sets.setdefault(word, [])
        elif word and not word.startswith("#") and current is not None:
            current.append(word)
    return sets


def expand(words, sets):
    calls = set()
    for word in words:
        calls |= expand(sets[word], sets) if word.startswith("@") else {word}
    return calls


def allowed_calls(unit):
    sets = read_sets()
    allowed = expand(["@default"], sets)
    for words in settings(unit, "SystemCallFilter"):
        if words.startswith("~"):
            allowed -= expand(words[1:].split(), sets)
        else:
            allowed |= expand(words.split(), sets)
    return allowed


def build_filter(unit):
    with open(NUMBERS) as file:
        numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", file.read())}
    # Some calls exist only on other architectures.
    allowed = sorted(numbers[name] for name in allowed_calls(unit) if name in numbers)
    families = [int(getattr(socket, name)) for words in settings(unit, "RestrictAddressFamilies") for name in words.split()]
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 2 * len(families) + 2, numbers["socket"]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
    ]
    for family in families:
        code += [(JUMP_IF_EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT))
    for number in allowed:
        code += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, REFUSE | errno.EPERM))
    return (Instruction * len(code))(*code)


def control(*arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*[ctypes.c_ulong(argument) for argument in arguments], *[ctypes.c_ulong(0)] * (5 - len(arguments))) != 0:
        sys.exit(f"restrict.py: prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")


def main():
    unit, program = sys.argv[1], sys.argv[2:]
    assert settings(unit, "NoNewPrivileges") == ["yes"] and settings(unit, "MemoryDenyWriteExecute") == ["yes"]
    assert settings(unit, "SystemCallErrorNumber") == ["EPERM"] and settings(unit, "SystemCallArchitectures") == ["native"]
    instructions = build_filter(unit)
    rules = Program(len(instructions), instructions)
    control(PR_SET_NO_NEW_PRIVS, 1)
    control(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN)
    control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(rules))
    os.execvp(program[0], program)


main()
