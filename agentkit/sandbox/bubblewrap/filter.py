"""The filter of system calls that every process of a bubblewrap sandbox has: what Docker's default refuses, too.

bubblewrap brings none along. A program for the kernel's packet filter is a few numbers, so no library is needed.
"""

from __future__ import annotations

import errno
import struct

# Where the kernel puts number, architecture and the low half of the first argument for the filter to look at.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
#: System calls of the x32 ABI of x86-64 are the ordinary ones plus this bit.
_X32 = 0x40000000
#: clone() with any of these makes a namespace.
_NEW_NAMESPACE = 0x7E020000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# What changes the machine for everybody, or is a large surface of the kernel that no ordinary program needs.
_REFUSED = {
    "x86_64": (
        *(134, 136, 139, 153, 155, 156, 161, 163, 164, 165, 166, 167, 168, 169, 172, 173, 174, 175, 176, 177, 178, 179),
        *(180, 212, 227, 246, 248, 249, 250, 272, 298, 303, 304, 305, 308, 313, 320, 321, 323, 425, 426, 427, 428, 429),
        *(430, 431, 432, 433, 442, 443, 467),
    ),
    "aarch64": (
        *(18, 39, 40, 41, 42, 51, 58, 60, 89, 97, 104, 105, 106, 112, 142, 170, 217, 218, 219, 224, 225, 241, 264, 265),
        *(266, 268, 273, 280, 282, 294, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443, 467),
    ),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
#: Its flags lie in memory, where no filter can look; told that it isn't there, the C library uses clone().
_CLONE3 = 435


def filter_program(machine: str) -> bytes | None:
    """Return the filter for a machine as ``os.uname`` names it, or None if its system calls aren't known here."""
    if machine not in _ARCHITECTURES:
        return None
    refuse, unknown = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        *_answer(_JUMP_EQUAL, _ARCHITECTURES[machine], unknown, is_reversed=True),
        _step(_LOAD, _NUMBER),
    ]
    if machine == "x86_64":
        steps += _answer(_JUMP_AT_LEAST, _X32, unknown)
    for number in _REFUSED[machine]:
        steps += _answer(_JUMP_EQUAL, number, refuse)
    steps += _answer(_JUMP_EQUAL, _CLONE3, unknown)
    steps += [
        _step(_JUMP_EQUAL, _CLONE[machine], if_true=0, if_false=3),
        _step(_LOAD, _FIRST_ARGUMENT),
        *_answer(_JUMP_ANY_BIT, _NEW_NAMESPACE, refuse),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _answer(test: int, value: int, answer: int, *, is_reversed: bool = False) -> list[bytes]:
    """Return the steps that give an answer where a test holds, or doesn't."""
    skip = _step(test, value, if_true=1 if is_reversed else 0, if_false=0 if is_reversed else 1)
    return [skip, _step(_RETURN, answer)]


def _step(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
