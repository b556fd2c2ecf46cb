"""The filter of system calls, as the kernel would judge by it."""

from __future__ import annotations

import errno
import struct

import pytest

from agentkit.sandbox.bubblewrap.filter import filter_program

_ALLOW = "allow"
_X86_64, _AARCH64, _I386 = 0xC000003E, 0xC00000B7, 0x40000003


def judge(program: bytes, number: int, architecture: int, argument: int = 0) -> str | int:
    """Return what a filter says of a call: an error number, or that it is allowed."""
    call = struct.pack("=IIQQ", number, architecture, 0, argument)
    steps, at, value = [struct.unpack_from("=HBBI", program, start) for start in range(0, len(program), 8)], 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                [value] = struct.unpack_from("=I", call, operand)
            case 0x15:
                at += if_true if value == operand else if_false
            case 0x35:
                at += if_true if value >= operand else if_false
            case 0x45:
                at += if_true if value & operand else if_false
            case 0x06:
                return _ALLOW if operand == 0x7FFF0000 else operand & 0xFFFF
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(
    ("machine", "architecture", "names"),
    [
        (
            "x86_64",
            _X86_64,
            {"mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "bpf": 321, "kexec_load": 246, "keyctl": 250},
        ),
        (
            "aarch64",
            _AARCH64,
            {"mount": 40, "umount2": 39, "unshare": 97, "setns": 268, "bpf": 280, "kexec_load": 104, "keyctl": 219},
        ),
    ],
)
def test_dangerous_calls_are_refused(machine: str, architecture: int, names: dict[str, int]) -> None:
    """They fail as without the right to them, on each kind of machine."""
    program = filter_program(machine)
    assert program is not None

    found = {name: judge(program, number, architecture) for name, number in names.items()}

    assert found == dict.fromkeys(names, errno.EPERM)


@pytest.mark.parametrize(("machine", "architecture", "clone"), [("x86_64", _X86_64, 56), ("aarch64", _AARCH64, 220)])
def test_new_processes_are_allowed_and_new_namespaces_are_not(machine: str, architecture: int, clone: int) -> None:
    """Any flag for a namespace is enough to be refused; clone3, whose flags can't be seen, is said not to exist."""
    program = filter_program(machine)
    assert program is not None

    ordinary = judge(program, clone, architecture, argument=0x01200011)
    namespaces = [judge(program, clone, architecture, argument=bit) for bit in (0x10000000, 0x20000, 0x40000011)]

    assert (ordinary, namespaces) == (_ALLOW, [errno.EPERM] * 3)
    assert judge(program, 435, architecture) == errno.ENOSYS


def test_ordinary_calls_are_allowed() -> None:
    """Reading, writing, memory, sockets, exec and what else programs live by."""
    program = filter_program("x86_64")
    assert program is not None

    assert {judge(program, number, _X86_64) for number in (0, 1, 2, 9, 10, 41, 42, 59, 60, 101, 231, 257, 262)} == {
        _ALLOW
    }


def test_calls_of_other_architectures_do_not_exist() -> None:
    """Their numbers mean something else, so that the list would be no protection."""
    program = filter_program("x86_64")
    assert program is not None

    assert judge(program, 1, _I386) == errno.ENOSYS
    assert judge(program, 0x40000000 | 1, _X86_64) == errno.ENOSYS


def test_unknown_machine_has_no_filter() -> None:
    """Better none than one with the numbers of another machine; the engine then isn't said to isolate."""
    assert filter_program("riscv64") is None
