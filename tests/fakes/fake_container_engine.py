"""A program that speaks as the command line of Docker does, for the words that we use.

usage: fake_container_engine.py STATE PROGRAMS [--missing-is-fine] WORDS…

Containers are folders in STATE with real processes of this computer; ``/farhand/`` in what they are
told, by words or standard input, means a folder of theirs; PROGRAMS is the PATH inside. As Docker,
it refuses a second container of a name, `exec` in one that does not run, and everything about one
that is not there; with ``--missing-is-fine`` removing what is not there succeeds with a word on
standard error, as newer Docker and Podman do.
What it does not model: isolation of any kind, images and pulling, networks, volumes, limits, `init`
(what a container leaves behind is found by its folder), signals, a daemon that is slow or gone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from farhand_control_plane.provisioning.processes import end_all, processes_of

TAKES_VALUE = {
    *("--name", "--hostname", "--label", "--security-opt", "--pids-limit", "--stop-timeout"),
    *("--env", "--entrypoint", "--filter", "--format"),
}
FLAGS = {"--detach", "--init", "--interactive", "--all", "--force", "--volumes"}


def parse(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options before the first other word, and the rest; as Docker stops there."""
    options: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word in TAKES_VALUE:
            options.setdefault(word, []).append(words[at + 1])
            at += 2
        elif word in FLAGS:
            options[word] = []
            at += 1
        else:
            fail(f"unknown flag: {word}", 125)
    return options, words[at:]


def fail(message: str, status: int = 1) -> None:
    sys.stderr.write(f"{message}\n")
    raise SystemExit(status)


class Container:
    def __init__(self, state: Path, name: str) -> None:
        self.folder = state / name
        self.name = name

    @property
    def facts(self) -> dict[str, object]:
        try:
            facts: dict[str, object] = json.loads((self.folder / "container.json").read_text())
        except FileNotFoundError:
            fail(f"Error response from daemon: No such container: {self.name}")
        return facts

    @property
    def runs(self) -> bool:
        """As long as its first process does, which works on the folder."""
        try:
            pid = int((self.folder / "pid").read_text())
        except FileNotFoundError:
            return False
        return pid in processes_of(self.folder)

    def inside(self, text: str) -> str:
        return text.replace("/farhand/", f"{self.folder}/root/")

    def environ(self, programs: str) -> dict[str, str]:
        pairs = (text.split("=", 1) for text in self.facts["env"])  # type: ignore[attr-defined] # JSON of ours
        inside = {name: self.inside(value) for name, value in pairs}
        return {"PATH": f"{programs}:/usr/bin:/bin", "HOME": f"{self.folder}/root", **inside}

    def start(self, programs: str) -> None:
        command = [self.inside(str(word)) for word in self.facts["command"]]  # type: ignore[attr-defined] # JSON of ours
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environ(programs),
                cwd=self.folder / "root",
                start_new_session=True,
            )
        (self.folder / "pid").write_text(str(process.pid))


def main(argv: list[str]) -> int:
    state, programs, *words = argv
    missing_is_fine = words[0] == "--missing-is-fine"
    verb, *rest = words[1:] if missing_is_fine else words
    options, others = parse(rest)
    containers = Path(state)
    match verb:
        case "run":
            run(containers, programs, options, others)
        case "exec":
            container = Container(containers, others[0])
            _ = container.facts
            if not container.runs:
                fail(f"Error response from daemon: container {others[0]} is not running")
            command = [container.inside(word) for word in others[1:]]
            environ = container.environ(programs)
            told = container.inside(sys.stdin.read())
            done = subprocess.run(command, env=environ, input=told.encode(), check=False)
            return done.returncode
        case "start":
            container = Container(containers, others[0])
            _ = container.facts
            if not container.runs:
                container.start(programs)
            print(others[0])
        case "rm":
            remove(containers, others[0], missing_is_fine=missing_is_fine)
        case "ps":
            listed(containers, options)
        case _:
            fail(f"docker: unknown command: docker {verb}", 125)
    return 0


def run(containers: Path, programs: str, options: dict[str, list[str]], others: list[str]) -> None:
    (name,) = options["--name"]
    folder = containers / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        fail(
            f"docker: Error response from daemon: Conflict. The container name {name!r} is already "
            "in use.",
            125,
        )
    (folder / "root").mkdir()
    facts = {
        "labels": options["--label"],
        "env": options["--env"],
        "image": others[0],
        "command": [*options["--entrypoint"], *others[1:]],
    }
    (folder / "container.json").write_text(json.dumps(facts))
    Container(containers, name).start(programs)
    print("f" * 64)


def remove(containers: Path, name: str, *, missing_is_fine: bool) -> None:
    import shutil

    folder = containers / name
    if not folder.exists():
        message = f"Error response from daemon: No such container: {name}"
        if not missing_is_fine:
            fail(message)
        sys.stderr.write(f"{message}\n")
        return
    end_all(folder, 10.0)
    shutil.rmtree(folder)
    print(name)


def listed(containers: Path, options: dict[str, list[str]]) -> None:
    (wanted,) = options["--filter"]
    (form,) = options["--format"]
    if form != '{{.Label "farhand.environment"}}\t{{.State}}':
        fail(f"template parsing error: {form}", 64)
    label = wanted.removeprefix("label=")
    for folder in sorted(containers.glob("*")) if containers.exists() else ():
        container = Container(containers, folder.name)
        labels = [str(text) for text in container.facts["labels"]]  # type: ignore[attr-defined] # JSON of ours
        if label in labels:
            names = dict(text.split("=", 1) for text in labels)
            print(f"{names['farhand.environment']}\t{'running' if container.runs else 'exited'}")


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    raise SystemExit(main(sys.argv[1:]))
