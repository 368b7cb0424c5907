"""A new key and certificate before the old one ends, or up to 30 days after.

Runs as a short process of its own (``farhandd renew-certificate``): it needs ``cryptography``,
which would stay in the daemon's memory for months. The old key proves who asks.
"""

import asyncio
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from farhand_daemon.identity import MachineCredentials, load_identity, store_identity
from farhand_daemon.paths import Home
from farhand_shared import pki
from farhand_shared.errors import NotAllowed, Unavailable
from farhand_shared.limits import RENEW_GRACE_DAYS

EXIT_REFUSED: Final = 4  # of the process: trying again soon cannot help
_PROCESS_TIMEOUT_S: Final = 60.0


def renewal_is_due(identity: MachineCredentials) -> bool:
    """Tell whether half of the certificate's life (and its jitter) is over."""
    return time.time() * 1000 >= identity.renew_at_ms


def has_ended(identity: MachineCredentials) -> bool:
    """Tell whether the certificate is too old to be shown to anybody."""
    return time.time() * 1000 > identity.not_after_ms


def renew_certificate(home: Home) -> MachineCredentials:
    """Fetch and store a new key and certificate, as one; the old pair stays until then."""
    from farhand_daemon.enrol_client import EnrolmentClient  # imports gRPC

    identity = load_identity(home)
    if datetime.now(UTC) > identity.not_after + timedelta(days=RENEW_GRACE_DAYS):
        raise NotAllowed(
            f"cannot renew the certificate: it ended on {identity.not_after:%Y-%m-%d}, more than "
            f"{RENEW_GRACE_DAYS} days ago; enrol again with farhandd enroll URL --force"
        )
    key_pem = pki.new_private_key()
    root_pem = identity.root_pem.encode()
    with EnrolmentClient(identity.enrol_address, root_pem) as client:
        certificate_der = client.renew(
            old_key_pem=identity.key_pem.encode(),
            certificate_der=pki.certificate_der(identity.certificate_pem.encode()),
            csr_der=pki.create_csr(key_pem),
        )
    issued_to = pki.check_machine_certificate(certificate_der, root_pem, now=datetime.now(UTC))
    ours = pki.spki_of_certificate(certificate_der) == pki.spki_of_key(key_pem)
    if not ours or issued_to.machine_id != identity.machine_id:
        raise NotAllowed("cannot renew the certificate: the answer is for another key or machine")
    renewed = identity.with_certificate(
        key_pem=key_pem, certificate_der=certificate_der, jitter=random.SystemRandom().random()
    )
    store_identity(home, renewed)
    return renewed


async def renew_in_process(home: Home) -> MachineCredentials:
    """Renew in a process of its own and return the stored identity.

    NotAllowed: it was refused, and a person has to see to it; other errors may pass.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the working directory must not shadow a module
        "-m",
        "farhand_daemon",
        "renew-certificate",
        "--home",
        str(home.root),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_PROCESS_TIMEOUT_S):
            _, said = await process.communicate()
    except TimeoutError:
        raise Unavailable(
            f"cannot renew the certificate: no answer within {_PROCESS_TIMEOUT_S:.0f} s; "
            "see farhandd doctor"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        text = said.decode(errors="replace").strip().removeprefix("farhandd: ")
        line = text.splitlines()[-1] if text else "cannot renew the certificate: it failed"
        raise NotAllowed(line) if process.returncode == EXIT_REFUSED else Unavailable(line)
    return load_identity(home)
