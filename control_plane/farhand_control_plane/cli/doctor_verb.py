"""`farhand doctor`: what is wrong here, and what to do about it."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from farhand_control_plane.cli.session import show, show_json
from farhand_control_plane.client.api import Api, find_target
from farhand_control_plane.config import Settings, load
from farhand_shared.errors import FarhandError
from farhand_shared.version import __version__

# Variables that are ours but not settings of this program.
_OTHERS = {"FARHAND_DAEMON_HOME", "FARHAND_TEST_DATABASE_URL", "FARHAND_PAYLOADS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at; the keys are those of `farhandd doctor` too.

    ``ok``: nothing is wrong. ``next_step`` is what must be done, or could be all the same.
    """

    check: str
    ok: bool
    result: str
    next_step: str = ""

    @property
    def mark(self) -> str:
        if not self.ok:
            return "BAD"
        return "see" if self.next_step else "ok"


def doctor(*, as_json: bool) -> int:
    """Look at everything and say it; return 1 when something is wrong."""
    checks = list(_look())
    if as_json:
        show_json({"items": [asdict(check) for check in checks], "next_cursor": None})
    else:
        for check in checks:
            show(f"{check.mark:4} {check.check}: {check.result}")
            if check.next_step:
                show(f"     → {check.next_step}")
    return 0 if all(check.ok for check in checks) else 1


def _look() -> Iterator[Check]:
    yield Check(check="version", ok=True, result=f"farhand {__version__}")
    try:
        settings = load(os.environ)
    except FarhandError as error:
        yield Check(check="settings", ok=False, result=str(error))
        return
    yield _settings()
    yield _home(settings)
    if settings.database_url is not None:
        yield _database(settings.database_url.reveal().decode())
    try:
        api = Api(find_target(settings))
        machines = api.get("/v1/machines")["items"]
    except FarhandError as error:
        yield Check(check="server", ok=False, result=str(error))
        return
    yield Check(check="server", ok=True, result=f"{api.target.url} answers and takes the token")
    yield from _machines(machines, api.target.this_machine)
    yield _model(settings)
    yield from _waiting(api)


def _settings() -> Check:
    known = {str(spec.metadata["env"]) for spec in fields(Settings)} | _OTHERS
    strange = sorted(n for n in os.environ if n.startswith("FARHAND_") and n not in known)
    if strange:
        return Check(
            check="settings",
            ok=False,
            result=f"no such setting: {', '.join(strange)}",
            next_step="correct the name; control_plane/README.md lists them all",
        )
    used = sorted(n for n in os.environ if n in known)
    return Check(check="settings", ok=True, result=", ".join(used) or "all at their defaults")


def _home(settings: Settings) -> Check:
    home = settings.home
    if not home.exists():
        return Check(check="home", ok=True, result=f"{home} does not exist yet")
    if not os.access(home, os.W_OK | os.X_OK):
        return Check(
            check="home",
            ok=False,
            result=f"{home} is not writable",
            next_step="make it writable or set FARHAND_HOME to a folder that is",
        )
    return Check(check="home", ok=True, result=str(home))


def _database(dsn: str) -> Check:
    from farhand_control_plane.db.migrate import check

    try:
        version = check(dsn)
    except FarhandError as error:
        return Check(check="database", ok=False, result=str(error))
    return Check(check="database", ok=True, result=f"schema version {version}")


def _machines(machines: list[dict[str, str]], own: str | None) -> Iterator[Check]:
    if not machines:
        yield Check(
            check="machines", ok=False, result="none is enrolled", next_step="farhand machines add"
        )
    for machine in machines:
        name = f"machine {machine['name']}" + (" (this one)" if machine["id"] == own else "")
        status, presence = machine["status"], machine["presence"]
        if status == "pending":
            yield Check(
                check=name,
                ok=False,
                result="pending: nobody has compared its six words yet",
                next_step=f"farhand machines confirm {machine['name']}",
            )
        elif status != "active":
            yield Check(check=name, ok=False, result=status)
        elif presence != "online":
            yield Check(
                check=name,
                ok=machine["id"] != own,
                result="offline: work for it waits",
                next_step="start farhandd run there, or see farhandd doctor there",
            )
        else:
            yield Check(check=name, ok=True, result=f"online, trust level {machine['trust_level']}")


def _model(settings: Settings) -> Check:
    if settings.model_base_url:
        return Check(
            check="model", ok=True, result=f"{settings.model} at {settings.model_base_url}"
        )
    return Check(
        check="model",
        ok=True,
        result="none is set in this environment: the built-in planner, which is no language model",
        next_step="set FARHAND_MODEL_BASE_URL, FARHAND_MODEL, FARHAND_MODEL_API_KEY for the server",
    )


def _waiting(api: Api) -> Iterator[Check]:
    """What needs a person is no fault, and yet what a person should see."""
    try:
        waiting = api.get("/v1/tickets", stage="needs_person", limit=200)["items"]
    except FarhandError as error:
        yield Check(check="tickets", ok=False, result=str(error))
        return
    if waiting:
        yield Check(
            check="tickets",
            ok=True,
            result=f"{len(waiting)} need a person",
            next_step="farhand tickets list",
        )
