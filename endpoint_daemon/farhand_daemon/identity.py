"""Who this machine is to the control plane: key, certificate, pinned root and addresses.

All of it is one file, replaced as one. The dates of the certificate are kept beside it, so that an
ordinary start needs no certificate parser (100 ms and 10 MB).
"""

import json
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from farhand_daemon.paths import Home, write_private
from farhand_shared import pki
from farhand_shared.errors import InvalidInput, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCredentials:
    """The identity of an enrolled machine. The repr shows neither key nor certificate."""

    machine_id: str
    machine_name: str
    instance_name: str
    server_url: str  # where enrolment began; asked again when the addresses no longer answer
    enrol_address: str  # host:port, server TLS
    link_address: str  # host:port, mutual TLS
    root_pem: str  # the pinned root: the only one ever trusted
    key_pem: str
    certificate_pem: str
    not_before_ms: int
    not_after_ms: int
    renew_at_ms: int  # half of the life, with jitter

    def __repr__(self) -> str:
        return f"MachineCredentials({self.machine_name!r}, {self.machine_id})"

    def with_certificate(
        self, *, key_pem: bytes, certificate_der: bytes, jitter: float
    ) -> "MachineCredentials":
        """Return the identity with a new key and certificate and their dates."""
        not_before, not_after = pki.validity(certificate_der)
        return replace(
            self,
            key_pem=key_pem.decode(),
            certificate_pem=pki.certificate_pem(certificate_der).decode(),
            not_before_ms=_ms(not_before),
            not_after_ms=_ms(not_after),
            renew_at_ms=_ms(pki.renew_at(certificate_der, jitter=jitter)),
        )

    @property
    def not_after(self) -> datetime:
        return datetime.fromtimestamp(self.not_after_ms / 1000, tz=UTC)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def load_identity(home: Home) -> MachineCredentials:
    """Return the stored identity; NotFound when this home was never enrolled."""
    path = home.identity_file
    try:
        # Any: JSON's values are checked below.
        document: Any = json.loads(path.read_bytes())
        values = {field.name: document[field.name] for field in fields(MachineCredentials)}
        for field in fields(MachineCredentials):
            if not isinstance(values[field.name], int if field.type is int else str):
                raise TypeError(field.name)
        return MachineCredentials(**values)
    except FileNotFoundError:
        raise NotFound(
            f"cannot find an identity in {home.root}: this machine is not enrolled; "
            "run farhandd enroll URL"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; make it readable") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"cannot use {path}: it is damaged ({error}); run farhandd enroll URL --force"
        ) from error


def store_identity(home: Home, identity: MachineCredentials) -> None:
    """Replace the stored identity; key and certificate change together or not at all."""
    document = {field.name: getattr(identity, field.name) for field in fields(MachineCredentials)}
    write_private(home.identity_file, json.dumps(document, indent=1).encode())


def with_addresses(
    home: Home, identity: MachineCredentials, *, link: str | None, enrol: str | None
) -> MachineCredentials:
    """Return the identity dialling other addresses, stored when that changes anything."""
    moved = replace(
        identity,
        link_address=link if link is not None else identity.link_address,
        enrol_address=enrol if enrol is not None else identity.enrol_address,
    )
    if moved != identity:
        store_identity(home, moved)
    return moved
