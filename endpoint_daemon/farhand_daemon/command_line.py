"""What may be typed after ``farhandd``, and what is said when something else was.

Misuse is one line like every error: "cannot …: reason; what to do", with exit status 2.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from farhand_shared.version import __version__

INNER_VERBS: Final = ("renew-certificate",)  # the daemon's own helpers: never named to people
_WAIT_MAX_H: Final = 24 * 366
_HOME_HELP: Final = "where its files are (default: FARHAND_DAEMON_HOME, else the data folder)"

_UNATTENDED: Final = """\
without a person, an administrator gives the code and the answer as two lines,
  printf '%s\\nyes\\n' "$CODE" | farhandd enroll URL --code-stdin --trust trusted
or writes the machine file into the home before; then only the code is read:
  machine.toml:   trust_level = "trusted"
                  chosen_by = "preset"
the code is never taken from the command line or the environment, where others could see it."""


class Misuse(Exception):
    """Something was typed that is no command; the text is fit for the person who typed it."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises Misuse where argparse would print its usage."""

    def __init__(self, prog: str, *, cannot: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._cannot = cannot

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"cannot {self._cannot}: {message}; see {self.prog} --help")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    does: str  # for the list of verbs
    cannot: str  # as it stands after "cannot"
    description: str
    options: Callable[[argparse.ArgumentParser], None]
    epilog: str = ""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options with ``verb`` and ``home``; Misuse unless they are a command."""
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] == "--home" else 1
    options = _top().parse_args(argv[:at])
    if at >= len(argv):
        raise Misuse("cannot tell what to do: no verb was given; see farhandd --help")
    options.verb = argv[at]
    verb = _VERBS.get(options.verb)
    if verb is None and options.verb not in INNER_VERBS:
        raise Misuse(f"cannot do {options.verb!r}: there is no such verb; see farhandd --help")
    if verb is None:
        verb = _Verb(does="", cannot=options.verb, description="", options=lambda _: None)
    parser = _Parser(
        f"farhandd {options.verb}",
        cannot=verb.cannot,
        description=verb.description,
        epilog=verb.epilog,
    )
    # Without a default, or it would replace what stood before the verb.
    parser.add_argument("--home", metavar="DIR", default=argparse.SUPPRESS, help=_HOME_HELP)
    verb.options(parser)
    _, unknown = parser.parse_known_args(argv[at + 1 :], options)
    if unknown:
        parser.error(f"{' '.join(map(repr, unknown))} is not understood")
    if options.verb == "enroll" and options.url is None and not options.rejoin:
        parser.error("the following arguments are required: URL")
    return options


def _top() -> _Parser:
    width = max(map(len, _VERBS))
    verbs = "\n".join(f"  {name:<{width}}  {verb.does}" for name, verb in _VERBS.items())
    parser = _Parser(
        "farhandd",
        cannot="tell what to do",
        description="The daemon that runs commands on this machine for Farhand.",
        epilog=f"verbs (farhandd VERB --help says more):\n{verbs}",
    )
    parser.usage = "farhandd [--home DIR] VERB …"
    parser.add_argument("--version", action="version", version=f"farhandd {__version__}")
    parser.add_argument("--home", metavar="DIR", help=_HOME_HELP)
    return parser


def _enroll(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="address of the control plane (with --rejoin: the one of before, unless given)",
    )
    parser.add_argument("--name", help="what to call it (default: the host name)")
    parser.add_argument(
        "--code-stdin",
        action="store_true",
        help="read the code, and the yes after it, from standard input without a prompt",
    )
    parser.add_argument(
        "--trust",
        choices=("trusted", "off"),
        help="trusted: commands run as this account (needs the yes); off: nothing runs yet",
    )
    parser.add_argument("--chosen-by", choices=("up", "preset"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--no-wait", action="store_true", help="do not wait for the maker of the code to confirm"
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--force", action="store_true", help="replace the identity of this home")
    again.add_argument(
        "--rejoin",
        action="store_true",
        help="come back from quarantine: the first copy as the machine it was, others as new ones",
    )
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--by-installer", action="store_true", help=argparse.SUPPRESS)


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lifeline", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--link-address", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--enrol-address", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--not-wanted-is-success", action="store_true", help=argparse.SUPPRESS)
    # Of updates: what a version is told by the one before it, whichever these two are.
    parser.add_argument("--trial", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--no-trial", action="store_true", help=argparse.SUPPRESS)


def _status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    _as_json(parser)


def _service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("install", "remove", "status"))
    parser.add_argument("--restart", action="store_true", help=argparse.SUPPRESS)
    _as_json(parser)


def _logs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", type=_count, default=50, metavar="N", help="how many events (default: 50)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes")
    parser.add_argument("--json", action="store_true", help="the lines as they are in the file")


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of events")
    return int(text)


def _uninstall(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--force", action="store_true", help="end commands that still run")


def _update(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="only say what there is")
    what.add_argument("--to", metavar="VERSION", help="this version, an older or a failed one too")
    what.add_argument("--rollback", action="store_true", help="the version before this one")
    what.add_argument("--off", action="store_true", help="no version changes by itself any more")
    what.add_argument("--channel", metavar="NAME", help="let releases of NAME be installed")
    what.add_argument(
        "--wait", type=_hours, metavar="HOURS", help="not now: not before so many hours (0: now)"
    )
    what.add_argument("--by-daemon", action="store_true", help=argparse.SUPPRESS)


def _hours(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) > _WAIT_MAX_H:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours up to {_WAIT_MAX_H}")
    return int(text)


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same for programs")


_VERBS: Final = {
    "enroll": _Verb(
        does="make this computer a machine of an instance",
        cannot="enrol",
        description="Make this computer a machine of an instance: asks for the enrolment code and "
        "for a\ntyped yes, shows six words, and waits until the code's maker has confirmed them.",
        options=_enroll,
        epilog=_UNATTENDED,
    ),
    "run": _Verb(
        does="run the daemon until it is stopped",
        cannot="run",
        description="Stay connected and run commands until stopped. Ctrl-C ends running commands; "
        "TERM leaves\nthem running, and the next farhandd run takes them over. Exit status 3: the "
        "server does not\nwant this machine any more.",
        options=_run,
    ),
    "status": _Verb(
        does="say whether it is connected",
        cannot="show the status",
        description="Say what this machine is and how its link stands, with or without a running "
        "daemon.",
        options=_status,
    ),
    "logs": _Verb(
        does="show what it did",
        cannot="show the logs",
        description="Show the daemon's last events, oldest first: one line each, in local time.",
        options=_logs,
    ),
    "service": _Verb(
        does="let this computer's service manager run it",
        cannot="do that with the service",
        description="Make the daemon a service (systemd, or launchd on macOS): of this account, "
        "or as root of\nthe computer. It starts with the computer and is started again when it "
        "fails. Exit status 4:\nno service manager runs here, as in most containers.",
        options=_service,
    ),
    "update": _Verb(
        does="change to another version of it, and back",
        cannot="update",
        description="Install the newest release of this machine's channel and change to it. Only a "
        "release that\na pinned key has signed is installed. Running commands go on; a version "
        "that does not\nconnect within two minutes is left for the one before and remembered. "
        "Without a person\nthe daemon does the same every few hours, unless the machine's file "
        'says update = "off".',
        options=_update,
    ),
    "uninstall": _Verb(
        does="remove everything of it from this computer",
        cannot="uninstall",
        description="Stop the daemon and remove its service, its program and, after a typed yes, "
        "its identity\nand state. Nothing is left here; the machine is to be revoked on the "
        "control plane.",
        options=_uninstall,
    ),
    "doctor": _Verb(
        does="find what is wrong and how to fix it",
        cannot="look what is wrong",
        description="Check each thing that a working machine needs, and say what was found and "
        "the next step.",
        options=_as_json,
    ),
}
