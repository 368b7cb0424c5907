"""``farhandd``: enrol this machine, run its daemon, say how it is."""

import argparse
import os
import sys
from collections.abc import Sequence

from farhand_daemon.paths import Home, find_home, prepare_home
from farhand_shared.errors import FarhandError
from farhand_shared.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status: 0, 1 for an error, 2 for misuse."""
    options = _parser().parse_args(argv)
    try:
        home = find_home(options.home, os.environ)
        status: int = options.verb(home, options)
        return status
    except FarhandError as error:
        print(f"farhandd: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("farhandd: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="farhandd", description="The daemon that runs commands on this machine for Farhand."
    )
    parser.add_argument("--version", action="version", version=f"farhandd {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--home",
        metavar="DIR",
        help="where its files are (default: FARHAND_DAEMON_HOME, else the platform's data folder)",
    )

    enroll = verbs.add_parser(
        "enroll", parents=[common], help="make this computer a machine of an instance"
    )
    enroll.add_argument("url", metavar="URL", help="address of the control plane")
    enroll.add_argument("--name", help="what to call it (default: the host name)")
    enroll.add_argument("--code-stdin", action="store_true", help="read the code without a prompt")
    enroll.add_argument(
        "--trust", choices=("trusted", "off"), help="off: enrol without running anything yet"
    )
    enroll.add_argument("--chosen-by", choices=("up", "preset"), help=argparse.SUPPRESS)
    enroll.add_argument(
        "--no-wait", action="store_true", help="do not wait for the maker of the code to confirm"
    )
    enroll.add_argument("--force", action="store_true", help="replace the identity of this home")
    enroll.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    enroll.set_defaults(verb=_enroll)

    run = verbs.add_parser("run", parents=[common], help="run the daemon until it is stopped")
    run.add_argument("--lifeline", type=int, metavar="FD", help=argparse.SUPPRESS)
    run.add_argument("--link-address", metavar="HOST:PORT", help=argparse.SUPPRESS)
    run.add_argument("--enrol-address", metavar="HOST:PORT", help=argparse.SUPPRESS)
    run.set_defaults(verb=_run)

    status = verbs.add_parser("status", parents=[common], help="say whether it is connected")
    status.add_argument("--json", action="store_true", help="the same for programs")
    status.set_defaults(verb=_status)

    doctor = verbs.add_parser(
        "doctor", parents=[common], help="find what is wrong and how to fix it"
    )
    doctor.add_argument("--json", action="store_true", help="the same for programs")
    doctor.set_defaults(verb=_doctor)

    # The daemon's own helper process; not for people, so it has no help text.
    renew = verbs.add_parser("renew-certificate", parents=[common])
    renew.set_defaults(verb=_renew)
    return parser


def _enroll(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.enroll import EnrolOptions, enrol, talk_on_terminal, wait_until_active

    talk = talk_on_terminal(as_json=options.json)
    identity = enrol(
        home,
        EnrolOptions(
            url=options.url,
            name=options.name,
            trust=options.trust,
            chosen_by=options.chosen_by,
            prompt_for_code=not options.code_stdin,
            force=options.force,
        ),
        talk,
    )
    if not options.no_wait:
        identity = wait_until_active(home, identity, talk)
    talk.say(f"This machine is {identity.machine_name}. Next: farhandd run")
    return 0


def _run(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.identity import load_identity, with_addresses
    from farhand_daemon.machine_file import load_machine_file
    from farhand_daemon.status import HomeLock
    from farhand_daemon.supervisor.fork_client import launch_fork_server

    identity = load_identity(home)  # before the home is made: a mistyped --home makes nothing
    prepare_home(home)
    load_machine_file(home.machine_file)
    with HomeLock.take(home):
        identity = with_addresses(
            home, identity, link=options.link_address, enrol=options.enrol_address
        )
        fork_server = launch_fork_server(home.root)  # before gRPC is imported
        from farhand_daemon.channels import clean_grpc_environment

        clean_grpc_environment()
        import asyncio

        from farhand_daemon.daemon import Daemon

        return asyncio.run(Daemon(home, identity, fork_server).run(lifeline=options.lifeline))


def _status(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.status_verb import show_status

    return show_status(home, as_json=options.json)


def _doctor(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.doctor import show_health

    return show_health(home, as_json=options.json)


def _renew(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.renew import renew_certificate

    renew_certificate(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
