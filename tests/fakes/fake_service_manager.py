"""``systemctl``, ``loginctl`` and ``launchctl`` for tests: programs that record.

They know whether the system (and the account's session) runs, which units or jobs are enabled and
active, and whether the account lingers; every call is recorded with its words. **Not modelled:**
that anything is started, restarted or notified, that a unit file is read at all, dependencies,
polkit, sessions ending, and whatever real programs print beside the one word that is asked for.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """\
#!{python} -IS
import json, os, sys
folder = {folder!r}
me, words = os.path.basename(sys.argv[0]), sys.argv[1:]
state = json.load(open(folder + "/state.json"))
with open(folder + "/calls", "a") as file:
    file.write(json.dumps([me, *words]) + "\\n")

def end(status=0, out="", err=""):
    with open(folder + "/state.json", "w") as file:
        json.dump(state, file)
    if out: print(out)
    if err: print(err, file=sys.stderr)
    sys.exit(status)

for broken in state["broken"]:
    if broken in words:
        end(1, "", "Job failed.\\nFailed to " + broken + ": Access denied")
if me == "systemctl":
    user = words[0] == "--user"
    verb, *rest = words[1:] if user else words
    name = rest[-1] if rest else ""
    runs = state["session"] if user else state["system"]
    if verb == "is-system-running":
        end(0, "running") if runs else end(1, "offline", "Failed to connect to bus")
    if not runs:
        end(1, "", "System has not been booted with systemd as init system (PID 1).")
    if verb in ("start", "restart"): state["active"] = sorted({{*state["active"], name}})
    elif verb == "enable": state["enabled"] = sorted({{*state["enabled"], name}})
    elif verb == "disable":
        state["enabled"] = [one for one in state["enabled"] if one != name]
        if "--now" in rest: state["active"] = [one for one in state["active"] if one != name]
    elif verb == "is-active": end(0 if name in state["active"] else 3)
    elif verb == "is-enabled": end(0 if name in state["enabled"] else 1)
    elif verb not in ("daemon-reload", "reset-failed"): end(1, "", "Unknown command verb " + verb)
elif me == "loginctl":
    if words[0] == "show-user": end(0, "yes" if state["linger"] else "no")
    if not state["may_linger"]: end(1, "", "Could not enable linger: Access denied")
    state["linger"] = words[0] == "enable-linger"
    state["session"] = state["session"] or state["linger"]
else:
    verb, *rest = words
    if verb == "print":
        end(0 if rest[0] in state["domains"] or rest[0] in state["active"] else 113)
    if verb == "bootstrap":
        label = os.path.basename(rest[1]).removesuffix(".plist")
        state["active"] = sorted({{*state["active"], rest[0] + "/" + label}})
    elif verb == "bootout": state["active"] = [one for one in state["active"] if one != rest[0]]
    elif verb != "enable": end(64, "", "Unrecognized subcommand: " + verb)
end()
"""


@dataclass(frozen=True)
class FakeServiceManager:
    """The three programs in ``tools``; put that first in PATH."""

    folder: Path

    @classmethod
    def make(
        cls,
        folder: Path,
        *,
        names: Iterable[str] = ("systemctl", "loginctl", "launchctl"),
        python: str = sys.executable,
    ) -> "FakeServiceManager":
        """``python``: what runs them, where another account shall be able to."""
        fake = cls(folder)
        fake.tools.mkdir(parents=True)
        for name in names:
            program = fake.tools / name
            program.write_text(_PROGRAM.format(python=os.path.realpath(python), folder=str(folder)))
            program.chmod(0o755)
        fake.say(
            system=True, session=True, linger=False, may_linger=True, active=[], enabled=[],
            domains=[], broken=[],
        )  # fmt: skip
        return fake

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def path(self) -> str:
        """A PATH with the fakes before everything else."""
        return f"{self.tools}:{os.environ.get('PATH', os.defpath)}"

    def say(self, **changes: object) -> None:
        """Change what is so: system, session, linger, may_linger, active, enabled, …"""
        self._file.write_text(json.dumps({**self.state, **changes}))

    @property
    def state(self) -> dict[str, object]:
        return dict(json.loads(self._file.read_text())) if self._file.exists() else {}

    def calls(self) -> list[list[str]]:
        """Return what was called since the last time, without what only asks."""
        file = self.folder / "calls"
        text = file.read_text() if file.exists() else ""
        file.unlink(missing_ok=True)
        asking = {"is-system-running", "is-active", "is-enabled", "show-user", "print"}
        return [call for line in text.splitlines() if not asking & set(call := json.loads(line))]

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def _file(self) -> Path:
        return self.folder / "state.json"
