"""``farhandd enroll``: make this computer a machine of an instance.

The code is read from a prompt or standard input, never from argv or the environment. The key is
made here and never leaves. After a crash between the server's answer and our storing it, the same
code with the same key gets the same certificate for ten minutes: so the key is stored first.
"""

import getpass
import hashlib
import json
import random
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from farhand_daemon.discovery import Discovery, discover, normal_url
from farhand_daemon.enrol_client import EnrolmentClient
from farhand_daemon.identity import MachineCredentials, load_identity, store_identity
from farhand_daemon.machine_file import MachineFile, load_machine_file, write_machine_file
from farhand_daemon.paths import Home, prepare_home, write_private
from farhand_daemon.running import remove_work, running_commands
from farhand_daemon.status import running_pid
from farhand_proto.v1 import enroll_pb2
from farhand_shared import pki
from farhand_shared.enrolment_code import EnrolmentCode, parse_code
from farhand_shared.errors import Conflict, InvalidInput, NotAllowed, Unavailable
from farhand_shared.version import CAPABILITY, __version__
from farhand_shared.words import six_words

_NAME_MAX: Final = 64
_CODE_TRIES: Final = 3
_ANSWER_TRIES: Final = 3
_STATUS_FIRST_S: Final = 0.1  # `farhand up` confirms at once, people take their time
_STATUS_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolOptions:
    url: str | None  # None: to rejoin where this home was enrolled
    name: str | None = None  # None: the host name
    trust: str | None = None  # None: ask, unless the machine file says
    chosen_by: str | None = None  # who chose ``trust`` without a prompt: up or preset
    prompt_for_code: bool = True
    wait: bool = True
    force: bool = False
    rejoin: bool = False  # come back as the machine of this home, or as one of its own
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Talk:
    """How the command speaks: ``say`` to people, ``tell`` to programs, ``ask`` for a line."""

    say: Callable[[str], None]
    tell: Callable[[dict[str, Any]], None]  # Any: JSON
    ask: Callable[[str], str]  # with a prompt on a terminal; "" at the end of input
    again: bool = False  # somebody sits there who can be asked again


def talk_on_terminal(*, as_json: bool) -> Talk:
    """Return the talk of a real terminal; with ``as_json`` only JSON goes to standard output."""
    out = sys.stderr if as_json else sys.stdout

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    def tell(document: dict[str, Any]) -> None:
        if as_json:
            print(json.dumps(document), flush=True)

    def ask(prompt: str) -> str:
        if prompt and sys.stdin.isatty():
            print(prompt, end="", file=out, flush=True)
        return sys.stdin.readline()

    return Talk(say, tell, ask, again=sys.stdin.isatty())


def enrol(home: Home, options: EnrolOptions, talk: Talk) -> MachineCredentials:
    """Enrol and return the stored identity; raise one of our errors with nothing half-done."""
    before = load_identity(home) if options.rejoin else None
    url = normal_url(_url(options, before))
    name = _check_name(options.name if options.name is not None else socket.gethostname())
    if home.identity_file.exists() and not (options.force or options.rejoin):
        raise Conflict(
            f"cannot enrol: {home.root} already holds an identity; "
            "use farhandd status, another --home, or --force to replace it"
        )
    prepare_home(home)
    if (pid := running_pid(home)) is not None:
        raise Conflict(f"cannot enrol: a daemon (pid {pid}) uses {home.root}; stop it first")
    found = discover(url)
    code = _read_code(options, talk)
    _check_pin(url, found, code)
    machine, fresh = _choose_trust(home, options, talk)
    identity = _redeem(
        home, talk, url=url, name=name, found=found, code=code, machine=machine, before=before
    )
    if before is not None:
        _part(home, before, identity, talk)
    if fresh:
        write_machine_file(home.machine_file, machine)
    store_identity(home, identity)
    home.pending_file.unlink(missing_ok=True)
    home.status_file.unlink(missing_ok=True)  # it told of the identity before
    return identity


def _url(options: EnrolOptions, before: MachineCredentials | None) -> str:
    if options.url is not None:
        return options.url
    if before is None:
        raise InvalidInput(
            "cannot enrol: no address was given; give the control plane's, as in "
            "farhandd enroll URL"
        )
    return before.server_url


def _check_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > _NAME_MAX:
        raise InvalidInput(
            f"cannot enrol as {name[:_NAME_MAX]!r}: a name has 1 to {_NAME_MAX} printable "
            "characters; give --name"
        )
    return name.strip()


def _read_code(options: EnrolOptions, talk: Talk) -> EnrolmentCode:
    prompt = "Enrolment code (FH1-…): " if options.prompt_for_code else ""
    tries_left = _CODE_TRIES if talk.again and options.prompt_for_code else 1
    while True:
        line = talk.ask(prompt)
        tries_left -= 1
        try:
            if not line.strip():
                raise InvalidInput(
                    "cannot enrol: no code was given; type the one that its maker sees"
                )
            return parse_code(line)
        except InvalidInput as error:
            if not line or not tries_left:  # no line at all: Ctrl-D
                raise
            talk.say(str(error))


def _check_pin(url: str, found: Discovery, code: EnrolmentCode) -> None:
    if not pki.root_matches(found.root_pem, code):
        theirs = pki.spki_sha256(pki.spki_of_certificate(found.root_pem))
        raise NotAllowed(
            f"cannot trust {url}: its root is {theirs[:4].hex()}, the code was made for "
            f"{code.root_pin[:4].hex()}; check the address, or make a code on that server"
        )


def _choose_trust(home: Home, options: EnrolOptions, talk: Talk) -> tuple[MachineFile, bool]:
    """Return the machine file that applies and whether it is to be written."""
    if home.machine_file.exists():
        machine = load_machine_file(home.machine_file)
        talk.say(f"Trust level of this machine: {machine.trust_level} ({home.machine_file})")
        return machine, False
    if options.trust == "off":
        return MachineFile(trust_level="off", chosen_by=options.chosen_by or "typed"), True
    if options.trust is not None and options.chosen_by is not None:
        return MachineFile(trust_level=options.trust, chosen_by=options.chosen_by), True
    user = getpass.getuser()
    talk.say(
        f"Commands from the agent will run on this machine as the user {user}, without a sandbox:\n"
        f"they can do whatever {user} can do. {home.machine_file} can narrow this at any time."
    )
    if not _says_yes(talk):
        raise NotAllowed(
            "cannot enrol: the answer was not yes, so nothing was sent and the code is still good; "
            "answer yes (piped: in the line after the code), or use --trust off to enrol a machine "
            "that runs nothing yet"
        )
    chosen_by = "typed" if options.prompt_for_code else "preset"
    return MachineFile(trust_level="trusted", chosen_by=chosen_by), True


def _says_yes(talk: Talk) -> bool:
    """Ask for the word itself: a person who answers neither yes nor no is asked again."""
    for left in reversed(range(_ANSWER_TRIES if talk.again else 1)):
        line = talk.ask("Type yes to trust it, no to leave: ")
        word = line.strip().lower()
        if word in ("yes", "no") or not line:  # no line at all: Ctrl-D
            return word == "yes"
        if left:
            talk.say("That is neither yes nor no: type the whole word.")
    return False


def _key_for(home: Home, code: EnrolmentCode) -> bytes:
    """Return the key that this code was tried with before, or a new one, stored."""
    code_hash = hashlib.sha256(code.secret.reveal()).hexdigest()
    try:
        document = json.loads(home.pending_file.read_bytes())
        if document["code_sha256"] == code_hash:
            return str(document["key_pem"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none, or of no use: a new key costs nothing
    key_pem = pki.new_private_key()
    document = {"code_sha256": code_hash, "key_pem": key_pem.decode()}
    write_private(home.pending_file, json.dumps(document).encode())
    return key_pem


def _redeem(
    home: Home,
    talk: Talk,
    *,
    url: str,
    name: str,
    found: Discovery,
    code: EnrolmentCode,
    machine: MachineFile,
    before: MachineCredentials | None,
) -> MachineCredentials:
    key_pem = _key_for(home, code)
    csr = pki.create_csr(key_pem)
    with EnrolmentClient(found.enrol_address, found.root_pem) as client:
        answer = client.redeem(
            enroll_pb2.RedeemRequest(
                code_secret=code.secret.reveal(),
                csr=csr,
                name_hint=name,
                capability=CAPABILITY,
                daemon_version=__version__,
                trust_level=machine.trust_level,
                chosen_by=machine.chosen_by,
                rejoin=None if before is None else _proof_of(before, csr),
            )
        )
    words = six_words(
        pki.spki_of_key(key_pem),
        pki.spki_sha256(pki.spki_of_certificate(found.root_pem)),
        code.secret.reveal(),
    )
    _check_answer(answer, key_pem=key_pem, root_pem=found.root_pem, words=words)
    talk.say(f"Six words of this machine: {' '.join(words)}")
    talk.tell(
        {
            "event": "redeemed",
            "machine_id": answer.machine_id,
            "machine_name": answer.machine_name,
            "words": list(words),
            "active": answer.active,
        }
    )
    return MachineCredentials(
        machine_id=answer.machine_id,
        machine_name=answer.machine_name,
        instance_name=found.instance_name,
        server_url=url,
        enrol_address=found.enrol_address,
        link_address=answer.link_address or found.link_address,
        root_pem=found.root_pem.decode(),
        key_pem="",
        certificate_pem="",
        not_before_ms=0,
        not_after_ms=0,
        renew_at_ms=0,
    ).with_certificate(
        key_pem=key_pem, certificate_der=answer.certificate, jitter=random.SystemRandom().random()
    )


def _proof_of(before: MachineCredentials, csr: bytes) -> enroll_pb2.Rejoin:
    signed_at_ms = time.time_ns() // 1_000_000
    return enroll_pb2.Rejoin(
        certificate=pki.certificate_der(before.certificate_pem.encode()),
        signed_at_ms=signed_at_ms,
        signature=pki.sign_rejoin(before.key_pem.encode(), csr, signed_at_ms),
    )


def _part(home: Home, before: MachineCredentials, identity: MachineCredentials, talk: Talk) -> None:
    """Say which machine this computer is now; one of its own begins without the other's work."""
    if identity.machine_id == before.machine_id:
        talk.say(f"This computer is {identity.machine_name} again, under a new key.")
        return
    talk.say(
        f"This computer is a machine of its own now: {before.machine_name} is another one, or may "
        "not come back."
    )
    if running_commands(home.root):
        talk.say("Commands that it started still run here; nobody will learn how they end.")
        return
    remove_work(home.root)


def _check_answer(
    answer: enroll_pb2.RedeemResponse, *, key_pem: bytes, root_pem: bytes, words: tuple[str, ...]
) -> None:
    """Refuse an answer that is not about our key, under our root, with our words."""
    identity = pki.check_machine_certificate(answer.certificate, root_pem, now=datetime.now(UTC))
    ours = pki.spki_of_certificate(answer.certificate) == pki.spki_of_key(key_pem)
    if not ours or identity.machine_id != answer.machine_id:
        raise NotAllowed(
            "cannot enrol: the certificate is for another key or machine; "
            "make a new code and say so to whoever runs the server"
        )
    if tuple(answer.words) != words:
        raise NotAllowed(
            "cannot enrol: the server counts other words than this machine; somebody may be in "
            "between; nothing was stored, make a new code on a network you trust"
        )


def wait_until_active(home: Home, identity: MachineCredentials, talk: Talk) -> MachineCredentials:
    """Return the identity (with the name as confirmed) once its code's maker has confirmed.

    Asks again and again, because the answer is a person's; ends by Ctrl-C, and enrolment stands.
    """
    talk.say("Waiting for the code's maker to compare the words and confirm (Ctrl-C is harmless) …")
    certificate_der = pki.certificate_der(identity.certificate_pem.encode())
    wait_s = _STATUS_FIRST_S
    while True:
        try:
            with EnrolmentClient(identity.enrol_address, identity.root_pem.encode()) as client:
                while True:
                    status, name = client.status(
                        machine_id=identity.machine_id,
                        key_pem=identity.key_pem.encode(),
                        certificate_der=certificate_der,
                    )
                    if status != "pending":
                        return _settled(home, identity, status, name, talk)
                    time.sleep(wait_s)  # a person decides; the call answers at once
                    wait_s = min(2 * wait_s, _STATUS_EVERY_S)
        except Unavailable:
            time.sleep(_STATUS_EVERY_S)  # the server may be restarting; enrolment stands


def _settled(
    home: Home, identity: MachineCredentials, status: str, name: str, talk: Talk
) -> MachineCredentials:
    if status == "revoked":
        raise NotAllowed(
            "cannot finish: this machine was refused or revoked; make a new code and enrol again"
        )
    confirmed = replace(identity, machine_name=name or identity.machine_name)
    store_identity(home, confirmed)
    talk.tell({"event": "active", "status": status, "machine_name": confirmed.machine_name})
    return confirmed
