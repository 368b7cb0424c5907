"""`farhand exec --attach`: what runs already, by its id, its end, or its machine."""

import os
from typing import Any

from farhand_control_plane.cli.exec_options import Attach
from farhand_control_plane.cli.exec_verb import Run
from farhand_control_plane.client.api import Api, Body
from farhand_shared.errors import InvalidInput, NotFound
from farhand_shared.ids import is_id


class AttachedRun(Run):
    """A command that runs already, followed from its first byte: not ours to end by a Ctrl-C."""

    def __init__(self, api: Api, wanted: Attach) -> None:
        super().__init__(api, None)
        self._wanted = wanted

    def _open(self) -> Body:
        command_id = self._find(self._wanted.command)
        return self._api.open("GET", f"/v1/commands/{command_id}/output", timeout_s=None)

    def _find(self, named: str) -> str:
        """Return the id of a command: it is named by it, its end, or where it alone runs."""
        if is_id(named):
            return named
        commands = self._api.get("/v1/commands", open=True, limit=100)["items"]
        found = [
            command
            for command in commands
            if command["id"].endswith(named) or command["machine"] == named
        ]
        if len(found) == 1:
            return str(found[0]["id"])
        if not found:
            raise NotFound(
                f"cannot attach to {named!r}: no command that runs has an id that ends so, and "
                "none runs on a machine of that name"
            )
        shown = "".join(f"\n  {command['id'][-12:]}  {command['title']}" for command in found)
        raise InvalidInput(f"cannot attach to {named!r}: these run; name one by its id{shown}")

    def _begin_input(self, accepted: dict[str, Any]) -> None:  # as the frame has it
        from farhand_control_plane.cli.exec_input import ExecInput  # seldom needed

        kind = str(accepted.get("input", "none"))
        if self._wanted.take and kind == "none":
            raise InvalidInput("cannot take its input over: it was started without; see --stdin")
        if self._wanted.take or (os.isatty(0) and os.isatty(1)):
            self._input = ExecInput(
                self._api.target, writes=self._wanted.take, take=self._wanted.take
            )
            self._input.begin(accepted["command_id"], accepted["attempt_id"], kind)

    def _give_up(self, *, asked: bool = False) -> None:
        if asked:
            super()._give_up()
        else:
            self._leave()
