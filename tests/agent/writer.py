"""Writes an agent's files and is killed on the way: run by test_files with a folder, a word, and a step.

Each operation on files of the folder counts as a step, by Python's audit events; at the one that is asked for the process
kills itself before it happens. Exit code 0: there are not so many.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from registration.agent.bootstrapping.hub_files import NAMES, FolderOfFiles

OPERATIONS = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.symlink",
    "os.remove",
    "os.rmdir",
    "shutil.rmtree",
    "tempfile.mkdtemp",
}


def main(folder: str, word: str, last: int) -> None:
    steps = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        if event in OPERATIONS and any(folder in str(argument) for argument in arguments):
            steps += 1
            if steps > last:
                os.kill(os.getpid(), signal.SIGKILL)

    files = {name: f"{name} of {word}\n" * 2000 for name in NAMES}
    sys.addaudithook(count)
    asyncio.run(FolderOfFiles(Path(folder)).save(files))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
