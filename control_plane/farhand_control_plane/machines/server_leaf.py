"""A replica's own certificate: made in memory, replaced before it ends, on no disk."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import grpc

from farhand_control_plane.machines.ca import CertificateAuthority
from farhand_shared import pki
from farhand_shared.ids import ReplicaId

REPLACE_BEFORE: Final = timedelta(days=45)  # half of its life


class ServerLeaf:
    """Gives gRPC the current certificate at each new connection."""

    def __init__(
        self,
        authority: CertificateAuthority,
        replica_id: ReplicaId,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._authority = authority
        self._replica_id = replica_id
        self._now = now
        self._leaf = authority.server_leaf(replica_id)
        self._until = pki.validity(self._leaf.certificate_pem)[1]

    def server_tls(self) -> grpc.ServerCredentials:
        """Return credentials of a listener whose clients have no certificate yet."""
        return self._credentials(client_root=None)

    def mutual_tls(self) -> grpc.ServerCredentials:
        """Return credentials of a listener whose clients must show one under our root."""
        return self._credentials(client_root=self._authority.root_pem)

    def _credentials(self, client_root: bytes | None) -> grpc.ServerCredentials:
        def configuration() -> grpc.ServerCertificateConfiguration:
            leaf = self._current()
            return grpc.ssl_server_certificate_configuration(
                [(leaf.key_pem, leaf.certificate_pem)], root_certificates=client_root
            )

        # gRPC asks for it at each handshake.
        return grpc.dynamic_ssl_server_credentials(
            configuration(), configuration, require_client_authentication=client_root is not None
        )

    def _current(self) -> pki.KeyedCertificate:
        if self._until - self._now() < REPLACE_BEFORE:
            self._leaf = self._authority.server_leaf(self._replica_id)
            self._until = pki.validity(self._leaf.certificate_pem)[1]
        return self._leaf
