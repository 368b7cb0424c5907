"""Why the embedded Postgres cannot start or stop; each text fits one line and says what to do.

PostgresError               (unavailable, retryable: a part of the installation is down)
├── ClusterNotWritable      the home or the cluster's folder cannot be written
├── DiskFull                no space left for the cluster
├── WrongMajorVersion       the data was made by another major version
└── NoUnprivilegedUser      started by root, and there is nobody to run the server as
"""

from farhand_shared.errors import Unavailable


class PostgresError(Unavailable):
    """The root: also raised itself, when the server refuses to start for a reason of its own."""

    code = "postgres_unavailable"


class ClusterNotWritable(PostgresError):
    code = "postgres_not_writable"
    retryable = False


class DiskFull(PostgresError):
    code = "postgres_disk_full"


class WrongMajorVersion(PostgresError):
    code = "postgres_wrong_major_version"
    retryable = False


class NoUnprivilegedUser(PostgresError):
    code = "postgres_no_unprivileged_user"
    retryable = False
