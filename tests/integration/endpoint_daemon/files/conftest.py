"""Does file operations as a supervisor's child does them: a process of its own, on real files.

What it does not model: the supervisor (`test_supervised.py` has it).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from farhand_daemon import file_argv
from farhand_daemon.supervisor import wire
from farhand_shared.file_operation import FileOperation
from tests.integration.endpoint_daemon.files.forge import Forge, Process

# What a system may lack; each has another way, which must do the same.
WITHOUT_OPENAT2 = "kernel.Openat2.folder = lambda self, root_fd, path: None\n"
WITHOUT_PINS = "opening.PINS = False; opening.open_file.__kwdefaults__['pins'] = False\n"
WITHOUT_UNNAMED = "draft._UNNAMED = 0\n"
NOBODY = 65534


@dataclass(frozen=True)
class Answer:
    """What an operation said."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def facts(self) -> dict[str, Any]:
        """The one line on standard error; an error fails the test."""
        assert self.code == 0, self.stderr
        return self._line()

    @property
    def error(self) -> dict[str, Any]:
        assert self.code == 1, (self.code, self.stdout[:500], self.stderr)
        error = self._line()["error"]
        assert error["message"].startswith("cannot ")
        assert error["message"].isprintable()
        return dict(error)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines on standard output, without the last one, which ends the page."""
        assert self.code == 0, self.stderr
        *lines, last = [json.loads(line) for line in self.stdout.splitlines()]
        assert last == self._line()
        return lines

    @property
    def paths(self) -> list[str]:
        return [line["path"] for line in self.lines]

    def _line(self) -> dict[str, Any]:
        assert self.stderr.count(b"\n") == 1, self.stderr
        line: dict[str, Any] = json.loads(self.stderr)
        return line


class Files:
    """Operations on one root. `setup` is Python that the process runs before it."""

    def __init__(self, forge: Forge, root: Path, scratch: Path) -> None:
        self.root, self._scratch, self.setup = root, scratch, ""
        self._forge = forge
        self._requests = 0

    def facts(self, operation: FileOperation, **facts: Any) -> dict[str, Any]:
        """What an operation says when it is done."""
        return self.do(operation, **facts).facts

    def refused(self, operation: FileOperation, **facts: Any) -> dict[str, Any]:
        """The error of one that is not."""
        return self.do(operation, **facts).error

    def do(self, operation: FileOperation, *, stdin: bytes = b"", **facts: Any) -> Answer:
        with self.start(operation, **facts) as process:
            stdout, stderr = process.communicate(stdin)
            return Answer(process.wait(), stdout, stderr)

    def start(
        self,
        operation: FileOperation,
        *,
        roots: Sequence[Path] = (),
        own: Sequence[Path] = (),
        path: str = "",
        setup: str = "",
    ) -> Process:
        argv = file_argv.pack(
            operation,
            roots=[os.fsencode(root) for root in roots or (self.root,)],
            own=[os.fsencode(folder) for folder in own],
        )
        env = [(b"PATH", path.encode())] if path else []
        self._requests += 1
        request = self._scratch / f"request-{self._requests}"
        request.write_bytes(wire.encode_request({}, list(argv), env, os.fsencode(self.root)))
        return self._forge.start(request, self.setup + setup)


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="package")
def forge() -> Iterator[Forge]:
    """What the processes of operations are forked from."""
    with Forge() as forge:
        yield forge


@pytest.fixture
def files(forge: Forge, tmp_path: Path) -> Files:
    """Operations on an empty root."""
    for folder in ("root", "scratch"):
        (tmp_path / folder).mkdir()
    return Files(forge, tmp_path / "root", tmp_path / "scratch")


@pytest.fixture
def plain_files(forge: Forge, reachable_folder: Path) -> Files:
    """Operations as an account that is not root, on an empty root that it owns."""
    files = Files(forge, reachable_folder / "root", reachable_folder)
    files.root.mkdir()
    if os.geteuid() == 0:
        os.chown(files.root, NOBODY, NOBODY)
        # Not before the interpreter runs, which that account may not reach.
        files.setup = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    return files


@pytest.fixture(
    params=[
        pytest.param("", id="all"),
        pytest.param(WITHOUT_OPENAT2, id="no-openat2"),
        pytest.param(WITHOUT_PINS, id="no-pins"),
        pytest.param(WITHOUT_UNNAMED, id="no-unnamed"),
    ]
)
def any_files(files: Files, request: pytest.FixtureRequest) -> Files:
    """The same, on systems that lack something."""
    files.setup = request.param
    return files
