"""The filter of system calls, run by an interpreter of BPF here and by the kernel itself."""

import errno
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from covalt_git.runtime.sandbox import seccomp
from covalt_git.runtime.sandbox.syscall_numbers import AUDIT_ARCHITECTURES, LAST_KNOWN, NUMBERS
from tests.runtime.in_sandbox import SOURCES, needs_landlock
from tests.tables import tables

TABLES = tables(__file__)
ALLOW, KILL = 0x7FFF0000, 0x80000000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
every_machine = pytest.mark.parametrize("machine", NUMBERS)


def answer(program: bytes, machine: str, name: str | int, *arguments: int) -> int:
    """Run a filter as the kernel would, on a call; return its verdict."""
    number = NUMBERS[machine][name] if isinstance(name, str) else name
    six = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    called = struct.pack("<IIQ6Q", number, AUDIT_ARCHITECTURES[machine], 0, *six)
    return evaluate(program, called)


def evaluate(program: bytes, called: bytes) -> int:
    steps = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("<I", called, operand)
        elif code == 0x54:
            value &= operand
        else:
            holds = {
                0x15: value == operand,
                0x25: value > operand,
                0x35: value >= operand,
                0x45: bool(value & operand),
            }[code]
            at += yes if holds else no


def refused(number: int) -> int:
    return 0x00050000 | number


def everywhere(machine: str) -> bytes:
    return seccomp.program(seccomp.EVERYWHERE, machine)


def alone(machine: str) -> bytes:
    return seccomp.program(seccomp.EVERYWHERE + seccomp.ALONE, machine)


@every_machine
def test_calls_that_no_tool_may_make_are_refused(machine: str) -> None:
    for rule in seccomp.EVERYWHERE:
        if not rule.tests and rule.name in NUMBERS[machine]:
            assert answer(everywhere(machine), machine, rule.name) == refused(rule.answer), (
                rule.name
            )


@every_machine
def test_other_calls_are_allowed(machine: str) -> None:
    named = {NUMBERS[machine].get(rule.name) for rule in seccomp.EVERYWHERE}
    for number in set(range(LAST_KNOWN + 1)) - named:
        assert answer(everywhere(machine), machine, number) == ALLOW


VERDICTS = {"allow": ALLOW, "kill": KILL, "0": 0x00050000}


def verdict_of(word: str) -> int:
    return VERDICTS[word] if word in VERDICTS else refused(getattr(errno, word))


@every_machine
@pytest.mark.parametrize(
    ("rules", "table"), [(everywhere, "everywhere"), (alone, "without_namespaces")]
)
def test_verdict_depends_on_the_arguments(
    machine: str, rules: Callable[[str], bytes], table: str
) -> None:
    program = rules(machine)
    for name, arguments, verdict in TABLES[table]:
        number = LAST_KNOWN + 1 if name == "beyond-the-last" else name
        found = answer(program, machine, number, *arguments)
        assert found == verdict_of(verdict), (name, arguments)


@every_machine
def test_call_of_another_architecture_ends_the_process(machine: str) -> None:
    for architecture in (0x40000003, 0x40000028, *AUDIT_ARCHITECTURES.values()):
        if architecture != AUDIT_ARCHITECTURES[machine]:
            called = struct.pack("<IIQ6Q", 39, architecture, 0, 0, 0, 0, 0, 0, 0)
            assert evaluate(everywhere(machine), called) == KILL


@every_machine
def test_numbers_are_those_of_the_system_s_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the headers of Linux are not here")
    text = HEADERS[machine].read_text()
    stated = {
        name: int(number)
        for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s", text)
    }

    known = {name: number for name, number in NUMBERS[machine].items() if name in stated}

    assert known == {name: stated[name] for name in known}
    assert len(known) > 60


UNSCOPED = """
import errno, os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from covalt_git.runtime.sandbox import landlock, privileges, seccomp
os.setsid()
folder = Path(sys.argv[2])
privileges.drop()
landlock.restrict(("/usr", "/lib", "/lib64", "/etc"), (str(folder), "/dev/null"), 3, tcp=False)
seccomp.restrict(alone=True, signals_of=os.getpid())
for target in (os.getppid(), -1, 1):
    try:
        os.kill(target, 0)
        print("reached", target)
    except PermissionError:
        print("refused")
signal.signal(signal.SIGUSR1, lambda *_: print("own"))
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
"""


@needs_landlock
def test_signals_stay_at_home_on_kernels_whose_landlock_cannot_hold_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", UNSCOPED, str(SOURCES), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == ["refused"] * 3 + ["own"] * 2, done.stderr
