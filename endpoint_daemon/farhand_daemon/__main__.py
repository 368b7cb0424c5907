"""``farhandd``: enrol this machine, run its daemon, say how it is."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from farhand_daemon.command_line import Misuse, parse
from farhand_daemon.paths import Home, find_home, prepare_home, remove_leftovers
from farhand_daemon.program import is_installed
from farhand_shared.errors import FarhandError, NotAllowed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status: 0, 1 for an error, 2 for misuse."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        home = find_home(options.home, os.environ)
        return _VERBS[options.verb](home, options)
    except Misuse as error:
        print(f"farhandd: {error}", file=sys.stderr)
        return 2
    except FarhandError as error:
        print(f"farhandd: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = f"{where}{error.strerror or error}"
        print(f"farhandd: cannot {options.verb}: {reason}; see farhandd doctor", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("farhandd: interrupted", file=sys.stderr)
        return 130


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
            rejoin=options.rejoin,
        ),
        talk,
    )
    if not options.no_wait:
        identity = wait_until_active(home, identity, talk)
    import shlex

    where = "" if options.home is None else f" --home {shlex.quote(str(options.home))}"
    after = "" if options.by_installer else f" Next: farhandd run{where}"
    talk.say(f"This machine is {identity.machine_name}.{after}")
    return 0


def _run(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.pid_one import stay_as_init

    if (status_of_daemon := stay_as_init()) is not None:
        return status_of_daemon
    from farhand_daemon.identity import load_identity, with_addresses
    from farhand_daemon.machine_file import load_machine_file
    from farhand_daemon.status import HomeLock
    from farhand_daemon.supervisor.fork_client import launch_fork_server

    held = options.trial is not None or options.lifeline is not None
    if not held and not options.no_trial and is_installed(Path(sys.prefix)):
        from farhand_daemon.update.become import try_what_is_ready

        try_what_is_ready(home, sys.argv[1:])
    identity = load_identity(home)  # before the home is made: a mistyped --home makes nothing
    prepare_home(home)
    load_machine_file(home.machine_file)
    notifier = None
    if "NOTIFY_SOCKET" in os.environ:
        from farhand_daemon.service.notify import Notifier

        notifier = Notifier.take(os.environ)
    with HomeLock.take(home):
        remove_leftovers(home)
        identity = with_addresses(
            home, identity, link=options.link_address, enrol=options.enrol_address
        )
        fork_server = launch_fork_server(home.root)  # before gRPC is imported
        from farhand_daemon.channels import clean_grpc_environment

        clean_grpc_environment()
        import asyncio

        from farhand_daemon.daemon import EXIT_NOT_WANTED, RESTART, Daemon

        daemon = Daemon(home, identity, fork_server, notifier)
        status = asyncio.run(
            daemon.run(
                lifeline=options.lifeline, trial=options.trial, trial_failed=options.no_trial
            )
        )
    if status == RESTART:
        from farhand_daemon.update.become import start_again

        start_again(home, sys.argv[1:], None if notifier is None else notifier.address)
    # launchd would start again what ends with anything but 0.
    return 0 if options.not_wanted_is_success and status == EXIT_NOT_WANTED else status


def _status(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.status_verb import show_status

    return show_status(home, as_json=options.json, ask=options.ask)


def _logs(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.logs import show_logs

    return show_logs(home, count=options.n, follow=options.follow, as_json=options.json)


def _service(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.service.verb import service

    return service(home, options.action, restart=options.restart, as_json=options.json)


def _update(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.update.verb import update

    return update(home, options)


def _uninstall(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.uninstall import uninstall

    return uninstall(home, yes=options.yes, force=options.force)


def _doctor(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.doctor.verb import show_health

    return show_health(home, as_json=options.json)


def _renew(home: Home, options: argparse.Namespace) -> int:
    from farhand_daemon.channels import clean_grpc_environment

    clean_grpc_environment()
    from farhand_daemon.renew import EXIT_REFUSED, renew_certificate

    try:
        renew_certificate(home)
    except NotAllowed as error:
        print(f"farhandd: {error}", file=sys.stderr)
        return EXIT_REFUSED
    return 0


_VERBS: Final[dict[str, Callable[[Home, argparse.Namespace], int]]] = {
    "enroll": _enroll,
    "run": _run,
    "status": _status,
    "doctor": _doctor,
    "logs": _logs,
    "service": _service,
    "update": _update,
    "uninstall": _uninstall,
    "renew-certificate": _renew,
}


if __name__ == "__main__":
    sys.exit(main())
