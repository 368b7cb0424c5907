"""A replica's own certificate: made in memory, replaced before it ends, on no disk."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, cast

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
        shown = self._leaf
        asked = threading.Lock()  # gRPC asks from threads of its own

        def newer() -> grpc.ServerCertificateConfiguration | None:
            nonlocal shown
            with asked:
                leaf = self._current()
                if leaf is shown:
                    return None
                shown = leaf
                return _configuration(leaf, client_root)

        # gRPC asks at each handshake and takes whatever it is given for new. Changing over, it may
        # use freed memory in handshakes that run beside (https://github.com/grpc/grpc/issues/36693):
        # two hundred machines that came back at once ended the server. So it is given one seldom.
        return grpc.dynamic_ssl_server_credentials(
            _configuration(shown, client_root),
            # None is "no change"; the stubs do not say so.
            cast("Callable[[], grpc.ServerCertificateConfiguration]", newer),
            require_client_authentication=client_root is not None,
        )

    def _current(self) -> pki.KeyedCertificate:
        if self._until - self._now() < REPLACE_BEFORE:
            self._leaf = self._authority.server_leaf(self._replica_id)
            self._until = pki.validity(self._leaf.certificate_pem)[1]
        return self._leaf


def _configuration(
    leaf: pki.KeyedCertificate, client_root: bytes | None
) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(leaf.key_pem, leaf.certificate_pem)], root_certificates=client_root
    )
