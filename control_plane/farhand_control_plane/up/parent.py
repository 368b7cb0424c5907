"""The process of `farhand up`: starts the parts in order, keeps them, and stops them in order.

Start: the server's process begins to import while the database starts, and the daemon dials while
the server finishes. Stop: the daemon first, so that commands that it ends are still recorded, then
the server, then the database.
"""

import contextlib
import getpass
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from farhand_control_plane.api.built_page import FAILED_NAME, PAGE_FOLDER
from farhand_control_plane.client import conversation
from farhand_control_plane.client.api import Api, Target
from farhand_control_plane.client.screen import TerminalScreen
from farhand_control_plane.config import Settings
from farhand_control_plane.own_program import daemon_command, farhand
from farhand_control_plane.up import enrol
from farhand_control_plane.up.children import Child
from farhand_control_plane.up.enrol import OwnMachine
from farhand_control_plane.up.home import HomeLock, inherited_lock, prepare, wait_until_free
from farhand_control_plane.up.page import PageBuild, builder
from farhand_control_plane.up.told import where_lines
from farhand_shared.errors import FarhandError, Unavailable
from farhand_shared.ids import new_id
from farhand_shared.redact import Secret

if TYPE_CHECKING:
    from farhand_control_plane.postgres.server import EmbeddedPostgres

START_PATIENCE_S: Final = 120.0  # a database that recovers, a first migration on a slow disk
ONLINE_PATIENCE_S: Final = 60.0
LOOK_S: Final = 1.0  # the longest that the death of something goes unseen
ADOPTED_LOOK_S: Final = 5.0  # a database that is not our child: looking costs a walk over /proc
# The daemon gives a command 10 s between TERM and KILL; then its result must still travel.
DAEMON_PATIENCE_S: Final = 20.0
SERVER_PATIENCE_S: Final = 15.0


_DAEMON_NOT_WANTED: Final = 3  # the daemon's exit status when the server refuses its machine


class _StopAsked(BaseException):
    """A signal asked us to stop; not an Exception, so that no handler of errors takes it."""

    def __init__(self, number: int) -> None:
        self.number = number


class Parent:
    def __init__(self, settings: Settings, environ: Mapping[str, str], *, once: str | None) -> None:
        self._settings = settings
        self._environ = environ
        self._once = once
        self._screen = TerminalScreen()
        self._began = time.monotonic()
        self._lock = HomeLock(settings.home / "up.lock")
        self._postgres: EmbeddedPostgres | None = None
        self._postgres_looked_at = 0.0
        logs = settings.home / "logs"
        self._server = Child("server", log=logs / "server.log", environ=environ)
        # The daemon's own settings are in its home, and ours are no business of what it runs.
        bare = {name: text for name, text in environ.items() if not name.startswith("FARHAND_")}
        self._daemon = Child("daemon", log=logs / "daemon.log", environ=bare)
        self._page = PageBuild(
            builder(),
            log=logs / "page.log",
            environ=environ,
            say=self._screen.progress,
            failed=PAGE_FOLDER.with_name(FAILED_NAME),
        )
        self._where: dict[str, Any] = {}  # the server's last report: JSON
        self._own: OwnMachine | None = None
        self._api: Api | None = None
        self._stopping = False
        self._daemon_unwanted = False

    def run(self) -> int:
        """Start everything, stay or do the one thing, stop everything; return the exit code."""
        prepare(self._settings.home)
        (self._settings.home / "logs").mkdir(mode=0o700, exist_ok=True)
        self._lock.take()
        try:
            with inherited_lock(self._settings.home / "server.lock", "the server") as held:
                self._server = Child(
                    "server",
                    log=self._server.log,
                    environ=self._environ,
                    keep_fds=[held],
                )
                return self._run_locked()
        finally:
            (self._settings.home / "server.lock").unlink(missing_ok=True)
            self._lock.release()

    def _run_locked(self) -> int:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A script's background job has SIGINT ignored, and yet whoever sends it means it; an
            # ignored SIGHUP is nohup's doing and stays.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # only to be woken
        self._wake = wake_read
        try:
            self._start()
            if self._once is not None:
                return self._do_once(self._once)
            self._tell_where()
            self._page.start()
            self._keep(until=None)
            raise AssertionError("unreachable: only a signal ends the watch")
        except _StopAsked as asked:
            return 128 + asked.number if self._once is not None else 0
        finally:
            self._stop()
            signal.set_wakeup_fd(-1)
            os.close(wake_read)
            os.close(wake_write)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise _StopAsked(number)
        # Asked twice: do not wait for what runs. Its supervisors go on, and the next `up` finds it.
        if self._daemon.running and self._daemon.process is not None:
            self._daemon.process.kill()

    # ── starting ────────────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        with self._timed("database") as note:
            self._start_server()  # it imports while the database starts
            self._start_database()
            note("external" if self._postgres is None else "")
        with self._timed("server") as note:
            identity = enrol.stored_identity(self._settings.daemon_home)
            self._await_server("links_open")
            if identity is not None:
                self._start_daemon()  # it dials while the server opens its API
            self._await_server("ready")
            note(self._where["url"])
        self._api = Api(
            Target(
                url=self._where["url"],
                token=Secret(self._settings.token_file.read_bytes().strip()),
                this_machine=None,
            )
        )
        known = None if identity is None else enrol.known_machine(self._api, identity)
        if known is None:
            known = self._enrol(self._api, replace=identity is not None)
        self._own = known
        self._write_local_file()
        with self._timed("this machine") as note:
            self._await_online(self._api, known)
            note(known.name)

    def _enrol(self, api: Api, *, replace: bool) -> OwnMachine:
        with self._timed("enrolment") as note:
            self._daemon.end(signal.SIGTERM, DAEMON_PATIENCE_S)
            own = enrol.enrol_own_machine(
                api, self._settings.daemon_home, self._daemon_environ(), replace=replace
            )
            self._start_daemon()
            note("six words compared, confirmed")
        return own

    def _daemon_environ(self) -> dict[str, str]:
        return {k: v for k, v in self._environ.items() if not k.startswith("FARHAND_")}

    def _start_server(self) -> None:
        command = [sys.executable, "-P", "-m", "farhand_control_plane", "serve", "--local"]
        self._server.start(command, reports=True)

    def _start_database(self) -> None:
        """Start the embedded Postgres unless another is named; give the server its address."""
        if self._settings.database_url is not None:
            return
        if self._postgres is None:
            from farhand_control_plane.postgres.server import EmbeddedPostgres

            self._postgres = EmbeddedPostgres(self._settings.home)
        self._server.tell({"database_url": self._postgres.start()})

    def _start_daemon(self) -> None:
        daemon_home = self._settings.daemon_home
        wait_until_free(daemon_home / "daemon.lock", "the daemon")
        # Its stored addresses are those of its enrolment; ours may have moved since.
        link = f"{self._local_host()}:{self._where['link_port']}"
        enrolment = f"{self._local_host()}:{self._where['enrol_port']}"
        self._daemon.start(
            daemon_command(
                "run",
                *("--home", str(daemon_home)),
                *("--link-address", link, "--enrol-address", enrolment),
            )
        )

    def _local_host(self) -> str:
        """Return the host at which we reach our own listeners."""
        bind = self._settings.bind
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)  # noqa: S104  # recognised
        return f"[{host}]" if ":" in host else host

    def _await_server(self, event: str) -> None:
        """Return when the server has said ``event``; raise what it failed with."""
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            for line in self._server.hear():  # several may have come at once
                if line["event"] == "failed":
                    raise Unavailable(line["message"])
                self._where = line
            if self._where.get("event") in (event, "ready"):
                return
            if not self._server.running and self._server.report_fd < 0:
                raise Unavailable(
                    f"cannot start the server: {self._server.how_it_ended()}: "
                    f"{self._server.last_words()}; see {self._server.log}"
                )
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"cannot start the server: it was not ready after {START_PATIENCE_S:.0f} s; "
                    f"see {self._server.log}"
                )
            self._sleep(LOOK_S)

    def _await_online(self, api: Api, own: OwnMachine) -> None:
        deadline = time.monotonic() + ONLINE_PATIENCE_S
        while enrol.presence(api, own.machine_id) != "online":
            if not self._daemon.running:
                raise Unavailable(
                    f"cannot run this machine's daemon: {self._daemon.how_it_ended()}: "
                    f"{self._daemon.last_words().removeprefix('farhandd: ')}; "
                    f"see {self._daemon.log}"
                )
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"cannot bring this machine online: its daemon did not connect within "
                    f"{ONLINE_PATIENCE_S:.0f} s; see {self._daemon.log}"
                )
            self._sleep(0.02)  # the API tells presence only when asked

    def _write_local_file(self) -> None:
        assert self._own is not None  # noqa: S101  # called when it is known
        url = self._where["url"]
        local = {
            "url": url,
            "machine_id": self._own.machine_id,
            "machine_name": self._own.name,
            "pid": os.getpid(),
        }
        fresh = self._settings.local_file.with_name(f"local.json.{os.getpid()}")
        fresh.write_text(json.dumps(local) + "\n")
        fresh.replace(self._settings.local_file)
        self._lock.say({"pid": os.getpid(), "url": url})

    @contextlib.contextmanager
    def _timed(self, what: str) -> Any:  # yields a function that takes a note
        began, notes = time.monotonic(), [""]
        yield lambda text: notes.__setitem__(0, text)
        note = f": {notes[0]}" if notes[0] else ""
        self._screen.progress(f"{what} ready{note} ({time.monotonic() - began:.1f} s)")

    # ── being up ────────────────────────────────────────────────────────────────────────────────

    def _tell_where(self) -> None:
        assert self._own is not None  # noqa: S101  # called when it is known
        lines = [
            *where_lines(
                self._settings,
                url=self._where["url"],
                http_port=self._where["http_port"],
                machine=self._own.name,
                user=getpass.getuser(),
            )
        ]
        lines.append(self._sign_in_line())
        lines.append(
            f"Or talk to it in another terminal: {farhand(self._environ)} chat "
            '"run uname -a on this machine"'
        )
        lines.append("Ctrl-C stops everything.")
        for line in lines:
            self._screen.reply(line)

    def _sign_in_line(self) -> str:
        """Return the one-time link; nothing follows it in its line, so terminals know its end."""
        assert self._api is not None  # noqa: S101  # after the start
        again = f"{farhand(self._environ)} sign-in"
        try:
            made = self._api.post("/v1/sign-in/links")
        except FarhandError as error:  # no reason to stop what runs
            return f"No sign-in link could be made ({error}); try: {again}"
        note = f"works once, within 15 minutes; another one: {again}"
        if not (PAGE_FOLDER / "index.html").exists():  # it is begun after this is said
            note += "; the page is built first, and then appears by itself"
        return f"Open the page: {made['url']}\n  ({note})"

    def _do_once(self, text: str) -> int:
        """Say the text in a thread, while this one keeps the children running."""
        assert self._api is not None  # noqa: S101  # after the start
        assert self._own is not None  # noqa: S101  # after the start
        own = self._own
        api = Api(self._api.target)
        outcome: list[int | FarhandError] = []

        def talk() -> None:
            try:
                outcome.append(
                    conversation.say(
                        api,
                        text,
                        self._screen,
                        conversation=f"up-once-{new_id()}",  # nothing earlier is meant
                        client_message_id=new_id(),
                        this_machine=own.machine_id,
                    )
                )
            except FarhandError as error:
                outcome.append(error)

        talking = threading.Thread(target=talk, name="once", daemon=True)
        talking.start()
        self._keep(until=lambda: not talking.is_alive())
        if not outcome:
            raise Unavailable("cannot follow the conversation: it broke off by our own fault")
        if isinstance(outcome[0], FarhandError):
            raise outcome[0]
        return outcome[0]

    def _keep(self, *, until: Callable[[], bool] | None) -> None:
        """Watch the children and start again what dies, until ``until`` says so."""
        look_s = LOOK_S if until is None else 0.05  # a thread's end wakes nobody
        while until is None or not until():
            self._mend_database()
            self._mend_server()
            self._mend_daemon()
            self._page.look()
            self._sleep(look_s)

    def _mend_database(self) -> None:
        if self._postgres is None:
            return
        now = time.monotonic()
        if now - self._postgres_looked_at < (ADOPTED_LOOK_S if self._postgres.adopted else 0):
            return
        self._postgres_looked_at = now
        if self._postgres.is_running():
            return
        self._screen.progress("the database has ended; starting it again")
        try:
            self._postgres.start()
        except FarhandError as error:
            self._screen.progress(f"{error}; trying again")
            self._sleep(LOOK_S)

    def _mend_server(self) -> None:
        for line in self._server.hear():
            if line["event"] == "ready":
                self._where = line
                self._write_local_file()
                self._screen.progress(f"server ready again: {line['url']}")
            elif line["event"] == "failed":
                self._screen.progress(f"the server cannot start: {line['message']}")
        if self._server.due_again():
            how = self._server.how_it_ended()
            self._screen.progress(f"the server has ended ({how}); starting it again")
            self._start_server()
            if self._postgres is not None:
                self._server.tell({"database_url": self._postgres.dsn})

    def _mend_daemon(self) -> None:
        process = self._daemon.process
        if process is not None and process.poll() == _DAEMON_NOT_WANTED:
            if not self._daemon_unwanted:
                self._daemon_unwanted = True  # said once: starting it again cannot help
                words = self._daemon.last_words().removeprefix("farhandd: ")
                self._screen.progress(
                    f"the daemon has ended for good ({words}); to use this computer again stop "
                    f"`farhand up`, remove {self._settings.daemon_home} and start it"
                )
            return
        if self._daemon.due_again():
            how = self._daemon.how_it_ended()
            words = self._daemon.last_words().removeprefix("farhandd: ")
            self._screen.progress(f"the daemon has ended ({how}: {words}); starting it again")
            self._start_daemon()

    def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than until a signal, a child's end or a report."""
        watched = [self._wake] + [self._server.report_fd] * (self._server.report_fd >= 0)
        select.select(watched, [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 512):
                pass

    # ── stopping ────────────────────────────────────────────────────────────────────────────────

    def _stop(self) -> None:
        """Stop everything in order and leave nothing behind; says what needed force."""
        self._stopping = True
        if self._once is None and self._own is not None:
            self._screen.progress("stopping")
        self._page.stop()
        # SIGINT: it ends the commands that run, with the reason shutdown.
        if not self._daemon.end(signal.SIGINT, DAEMON_PATIENCE_S):
            self._screen.progress("the daemon did not end by itself and was killed")
        if not self._server.end(signal.SIGTERM, SERVER_PATIENCE_S):
            self._screen.progress("the server did not end by itself and was killed")
        if self._postgres is not None:
            try:
                self._postgres.stop()
            except FarhandError as error:
                self._screen.progress(str(error))
        self._settings.local_file.unlink(missing_ok=True)
        if self._once is None and self._own is not None:
            self._screen.progress("stopped")
