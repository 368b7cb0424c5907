"""Whether what a soak left on record is what its commands did and its clients were told."""

import hashlib
import re
import signal
from collections import Counter
from typing import Any, Final

from farhand_shared.command import TERMINAL
from farhand_shared.errors import FarhandError
from farhand_shared.exec_frames import FrameKind
from tests.simulation.soak_work import OUR_FAILURE, Report, Said, Work
from tests.simulation.stage import Stage

GAVE_UP: Final = 130


class Verdict:
    """Judges one run when all is over."""

    def __init__(self, stage: Stage, works: dict[str, Work], said: dict[str, Said]) -> None:
        """``works`` and ``said`` by id."""
        self._stage = stage
        self._works = works
        self._said = said

    def judge(self, rows: list[dict[str, Any]], ran: Counter[str], report: Report) -> None:
        """Compare what is on record with ``ran``, the ids that commands noted, and with clients."""
        states: Counter[str] = Counter()
        stored: dict[str, dict[str, Any]] = {}
        for row in rows:
            found = re.search(r"soak-\d+-\d{6}", row["title"])
            name = found.group() if found else row["title"]
            states[row["state"]] += 1
            report.check(name not in stored, f"{name}: two commands are on record")
            stored[name] = row
            report.check(row["state"] in TERMINAL, f"{name}: still {row['state']}")
        for name, times in ran.items():
            report.check(times == 1, f"{name}: ran {times} times")
            report.check(name in stored, f"{name}: ran and is not on record")
        outputs = 0
        for name, row in stored.items():
            if row["state"] == "exited":
                outputs += self._judge_exited(name, row, name in ran, report)
            elif name in ran:
                report.check(
                    row["state"] in ("indeterminate", "lost"),
                    f"{name}: ran, and is said to be {row['state']} ({row['error']})",
                )
        for name, said in self._said.items():
            self._judge_client(name, said, stored.get(name), report)
        endings = {OUR_FAILURE: "without a result", GAVE_UP: "gave up", -signal.SIGINT: "gave up"}
        clients = Counter(endings.get(s.status, "told the result") for s in self._said.values())
        report.counts |= {
            "commands": len(self._works),
            "states": dict(states),
            "never stored": len(self._works) - len(stored),
            "ran": len(ran),
            "outputs compared": outputs,
            "clients": dict(clients),
            "clients told of an unreachable machine": sum(
                "unreachable" in said.stderr for said in self._said.values()
            ),
            "why without a result": dict(
                Counter(
                    re.sub(r"[0-9a-f-]{36}|\d+", "#", said.stderr.strip()[-200:])
                    for said in self._said.values()
                    if said.status == OUR_FAILURE
                ).most_common(6)
            ),
            "unknown outcome": {
                name: row["error"] for name, row in stored.items()
                if row["state"] in ("indeterminate", "lost")
            },
        }  # fmt: skip

    def _judge_exited(self, name: str, row: dict[str, Any], ran: bool, report: Report) -> int:
        """Check a command that is said to have ended; return how many outputs were compared."""
        one = self._works[name]
        told, wrote = row["result"]["stdout"], one.stdout
        if one.gives_up_after_s is not None and row["reason"] == "cancel":
            wrote = wrote[: told["produced"]]  # as far as it came
        else:
            report.check(ran, f"{name}: is said to have ended and did not run")
            report.check(
                (row["reason"], row["exit_code"]) == ("exit", one.status),
                f"{name}: ended with {row['reason']} {row['exit_code']}, not {one.status}",
            )
        wanted = hashlib.sha256(wrote).hexdigest()
        report.check(
            (told["sha256"], told["omitted"]) == (wanted, 0),
            f"{name}: the machine says {told}, it wrote {len(wrote)} bytes, {wanted}",
        )
        try:
            frames = self._stage.frames("GET", f"/v1/attempts/{row['attempt_id']}/output")
        except FarhandError as error:
            report.check(False, f"{name}: its output cannot be read: {error}")
            return 0
        kept = b"".join(frame.payload for frame in frames if frame.kind is FrameKind.STDOUT)
        report.check(kept == wrote, f"{name}: {len(kept)} of {len(wrote)} bytes stored")
        return 1

    def _judge_client(
        self, name: str, said: Said, row: dict[str, Any] | None, report: Report
    ) -> None:
        one = self._works[name]
        whole = (said.status, said.stdout) == (one.status, one.stdout)
        # Who gave up may have done so before the program could take the signal, or too late.
        if said.status == OUR_FAILURE or (one.gives_up_after_s is not None and not whole):
            report.check(
                one.stdout.startswith(said.stdout),
                f"{name}: its client got bytes that it did not write",
            )
            return
        report.check(
            row is not None and row["state"] == "exited",
            f"{name}: its client was told {said.status}, on record is {row and row['state']}",
        )
        report.check(
            whole,
            f"{name}: its client got {said.status} and {len(said.stdout)} bytes, "
            f"not {one.status} and {len(one.stdout)}",
        )
