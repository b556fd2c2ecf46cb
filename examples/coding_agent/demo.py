"""What ``make demo`` shows: an agent mends a repository in a sandbox, is killed while away, and finishes all the same.

Everything but the model's words is real, unless a key is set: then those are too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from agentkit.errors import AgentKitError
from agentkit.sandbox import SandboxSpec
from agentkit.sandbox.engines import EngineName, open_engine
from examples.coding_agent.sample import make_sample
from examples.reminders import demo as reminders

TASK = "A test fails since one of the last changes. Find the cause and mend it."
AWAY = "Away until"


def main() -> int:
    """Run the demo; 0 if the repository was repaired."""
    engine = asyncio.run(_engine())
    if engine is None:
        print("\nUntil then, here is what an agent does without a sandbox:\n")
        reminders.main()
        return 0
    with tempfile.TemporaryDirectory(prefix="agentkit-demo-") as directory:
        repository = make_sample(Path(directory, "bills"))
        print("A small repository with a failing test was made. An agent is told:\n")
        print(f"    {TASK}\n", flush=True)
        command = [sys.executable, "-m", "examples.coding_agent", "--repo", str(repository), "--task", TASK]
        command += ["--resume-after", "10s", "--engine", engine, "--store", f"sqlite:///{directory}/demo.db"]
        status = _run_until_away(command)
        if status is not None:
            return status
        time.sleep(2)
        print("\n*** The same command again, in a new process:\n", flush=True)
        return subprocess.run(command, check=False).returncode


async def _engine() -> str | None:
    """Return the name of an engine that works here, or say what to install."""
    missing = []
    names: tuple[EngineName, ...] = ("docker", "bubblewrap")
    for name in names:
        try:
            engine = await open_engine(name)
            if name == "docker":
                await engine.prepare(SandboxSpec().image_reference)
        except AgentKitError as error:
            missing.append(str(error))
        else:
            if missing:
                print(f"Docker can't be used here, so this runs on bubblewrap.\n    {missing[0]}\n")
            return name
    print("The coding agent needs a sandbox, and there is no engine for one here:")
    for line in missing:
        print(f"    {line}")
    return None


def _run_until_away(command: list[str]) -> int | None:
    """Run the example, and kill it without warning once it is away; returns the status of one that ended before."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "120"})
    is_away = threading.Event()

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if AWAY in line:
                is_away.set()
        is_away.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    is_away.wait()
    time.sleep(1)
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        print(
            f"\n*** kill -9 {process.pid}: no goodbye, no clean-up. What is left is a file and a snapshot.", flush=True
        )
    status = process.wait()
    listener.join(timeout=5)
    return None if status == -signal.SIGKILL else status


if __name__ == "__main__":
    sys.exit(main())
