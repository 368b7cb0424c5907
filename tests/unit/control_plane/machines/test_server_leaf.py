"""A replica's own certificate: gRPC is given a new one when there is one, and only then."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from farhand_control_plane.machines.server_leaf import ServerLeaf
from farhand_shared import pki
from farhand_shared.ids import ReplicaId, new_id


class Authority:
    """The part of a CertificateAuthority that is used here."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._root = pki.create_root(new_id(), now=now())
        self._now = now
        self.root_pem = self._root.certificate_pem

    def server_leaf(self, replica_id: ReplicaId) -> pki.KeyedCertificate:
        identity = pki.ReplicaIdentity(instance_id=new_id(), replica_id=replica_id)
        return pki.issue_server_leaf(self._root, identity, now=self._now())


def test_a_certificate_is_given_again_only_when_it_was_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is given at each handshake makes gRPC use freed memory when many come at once."""
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    authority: Any = Authority(lambda: moment)
    leaf = ServerLeaf(authority, ReplicaId(new_id()), now=lambda: moment)
    asked: list[Callable[[], grpc.ServerCertificateConfiguration | None]] = []
    real = grpc.dynamic_ssl_server_credentials

    def noting(first: Any, newer: Any, **options: Any) -> grpc.ServerCredentials:
        asked.append(newer)
        return real(first, newer, **options)

    monkeypatch.setattr(grpc, "dynamic_ssl_server_credentials", noting)
    assert leaf.mutual_tls()
    assert leaf.server_tls()
    assert [newer() for newer in asked * 3] == [None] * 6
    moment += timedelta(days=46)
    first = [newer() for newer in asked]
    assert None not in first, "each listener is given it, once"
    assert [newer() for newer in asked] == [None, None]
