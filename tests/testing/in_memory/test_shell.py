"""Lines for the simulated shell: what it runs does what a real one does, and all else is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentkit.errors import CommandNotFoundError, UnsupportedByEngineError
from agentkit.sandbox.command import Command, Exit, Stdout
from agentkit.testing import FakeClock, InMemoryProcess
from tests.testing.in_memory.machines import SECOND, run, sh, started

_SAME_AS_A_REAL_SHELL = [
    "true",
    "false",
    "echo one two",
    "echo -n none",
    "echo 'a  b' \"c  d\" e\\ f",
    "echo a; echo b\necho c",
    "true && echo yes || echo no",
    "false && echo yes || echo no",
    "false || true && echo both",
    "exit 7; echo never",
    "false; exit",
    "exit 300",
    "X=1; echo $X ${X} \"$X\" '$X' a$X'b'",
    "X='a  b  c'; printf '[%s]' $X; printf '[%s]' \"$X\"",
    "X=' a '; printf '[%s]' x${X}y $X",
    "X=' '; printf '[%s]' a$X\"b\"",
    "X=; printf '[%s]' $X \"$X\" a$X; printf '[%s]' \"\"",
    "export Y=2; sh -c 'echo $Y'; Z=3; sh -c 'echo -$Z-'",
    "Y=1; export Y; sh -c 'echo $Y'; unset Y; printf '[%s]' \"$Y\"",
    "false; echo $?; true; echo $?",
    "echo hello > f; cat f",
    "echo a > f; echo b >> f; cat f; cat < f",
    "echo text > f 2>&1; cat f",
    "cat nothing 2> e; cat e",
    "cat nothing 2>/dev/null; echo $?",
    "cat nothing > both 2>&1; cat both",
    "cat nothing 2>&1 > out; cat out",
    "echo swapped >&2",
    "> empty; cat empty; test -e empty && echo there",
    "nothing-like-that 2>/dev/null; echo $?",
    "nothing-like-that 2>/dev/null || echo fallback",
    "mkdir d && cd d && pwd > ../p; test -s p && echo p",
    "cd missing 2>/dev/null || echo stayed",
    "mkdir d; cd d; cd ..; test -d d && echo back",
    "test -n '' && echo full || echo empty",
    "test 2 -lt 10 && echo less",
    "[ -f f ] || echo none; echo x > f; [ -f f ] && echo some; [ ! -d f ] && echo file",
    "[ a = b ]; echo $?; [ a != b ]; echo $?",
    "echo a # a comment",
    "echo a\\\nb",
    'echo "a\\"b\\$c"',
    "echo \"$\" '$' $",
    ": nothing at all; echo done",
    "exec echo replaced; echo never",
    "printf '%s-%d%%\\n' a 1 b 2",
    "mkdir -p a/b/c; ls; ls a; ls a/b",
    "mkdir d; mkdir d 2>/dev/null; echo $?; mkdir x/y 2>/dev/null; echo $?",
    "touch a b .c; ls; ls -A; rm a; ls; rm a 2>/dev/null; echo $?; rm -f a; echo $?",
    "mkdir d; touch d/f; rm d 2>/dev/null; echo $?; rm -r d; ls",
    "echo x > a; mv a b; cat b; mkdir d; mv b d; cat d/b; ls",
    "echo x > a; cp a b; cat b; mkdir d; cp a d; cat d/a; cp d e 2>/dev/null; echo $?; cp -r d e; cat e/a",
    "echo x > a; ln -s a l; cat l; readlink l; test -L l && echo link; rm l; cat a",
    "ln -s missing l; cat l 2>/dev/null; echo $?; test -e l; echo $?; test -h l; echo $?",
    "ls missing 2>/dev/null; echo $?",
    "cat d 2>/dev/null; mkdir d; cat d 2>/dev/null; echo $?",
    "env A=1 B=2 sh -c 'echo $A$B'",
    "cat; cat",
    "cat > copy; cat copy",
]


@pytest.mark.parametrize("line", _SAME_AS_A_REAL_SHELL)
async def test_line_does_what_a_real_shell_does(line: str, tmp_path: Path) -> None:
    """Output and exit code are those of the machine's own shell (SPEC 12.10)."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C"}
    real = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, input=b"in\n", capture_output=True, check=False)
    _, guest = await started()

    done = await sh(guest, line, stdin=b"in\n", env={"LC_ALL": "C"})

    assert done.code == real.returncode
    assert done.out == real.stdout.decode()
    assert (done.err == "") == (real.stderr == b"")


_REFUSED = {
    "echo a | cat": "'|'",
    "sleep 1 &": "'&'",
    "echo $(pwd)": "$(",
    "echo `pwd`": "'`'",
    'echo "`pwd`"': "'`'",
    "echo ${X:-default}": "${",
    "echo $1": "$1",
    "echo $$": "$$",
    "echo *": "'*'",
    "ls [ab]": "'['",
    "ls ?": "'?'",
    "(echo a)": "'('",
    "{ echo a; }": "'{'",
    "! true": "'!'",
    "if true; then echo a; fi": "'if'",
    "for x in a; do echo $x; done": "'for'",
    "cat <<END\na\nEND": "'<'",
    "echo ~": "'~'",
    "echo 'open": "open '",
    'echo "open': 'open "',
    "echo a >": "redirection >",
    "cat 3< f": "redirection 3<",
    "echo a 3> f": "redirection 3>",
    "exec": "'exec' with no program",
    "true &&": "ends with &&",
    "&& true": "&& with no command",
    "set -e": "'set'",
    "trap : TERM": "'trap'",
    "X='*'; echo $X": "$X outside of quotes",
    "echo 'a\\nb'": "backslash",
    "ls -l": "ls -l",
    "cat -n f": "cat -n",
    "sleep infinity": "sleep infinity",
    "printf '%5s' a": "printf %5",
    "chmod +x f": "chmod +x",
    "test a -nt b": "test a -nt b",
    "sh script": "sh but for",
}


@pytest.mark.parametrize("line", _REFUSED)
async def test_line_that_needs_a_real_shell_is_refused(line: str) -> None:
    """It says what isn't known; a wrong result would be worse."""
    _, guest = await started()

    with pytest.raises(UnsupportedByEngineError) as caught:
        await sh(guest, line)

    assert _REFUSED[line] in str(caught.value)


async def test_line_is_read_before_any_of_it_runs() -> None:
    """One that is refused has changed nothing."""
    _, guest = await started()

    with pytest.raises(UnsupportedByEngineError):
        await sh(guest, "touch made; echo a | cat")

    assert await guest.stat("/workspace/made") is None


async def test_timeout_kills_what_a_line_runs() -> None:
    """A command in a line ends with the line, and what it printed is kept (SPEC 12.2)."""
    clock = FakeClock()
    _, guest = await started(clock=clock)
    line = Command(argv=("sh", "-c", "echo before; sleep 10; echo after"), cwd="/tmp", timeout=3 * SECOND)

    outputs = guest.run(line)
    first = await anext(outputs)
    clock.move_to(clock.now() + 3 * SECOND)
    rest = [output async for output in outputs]

    assert first == Stdout(b"before\n", "before\n")
    assert rest == [Exit(exit_code=137, timed_out=True, duration=3 * SECOND)]


async def test_registered_command_runs_in_a_line() -> None:
    """It sees the line's directory, variables and redirections, and its exit code is the line's."""

    async def greet(process: InMemoryProcess) -> int:
        process.print(process.argv[1:], process.cwd, process.env["WHO"])
        process.write_error("told\n")
        return 4

    _, guest = await started({"greet": greet})

    done = await sh(guest, "mkdir d; cd d; WHO=me greet 'a b' > out 2> err; echo $?; cat out err")

    assert done.out == "4\n('a b',) /workspace/d me\ntold\n"


async def test_program_that_is_missing_says_what_there_is() -> None:
    """Whoever wrote the test is told how to play the command."""
    _, guest = await started()

    with pytest.raises(CommandNotFoundError) as caught:
        await run(guest, "git", "status")

    assert "InMemoryEngine(commands=" in caught.value.__notes__[0]
