"""Sizes and times both ends of the link obey: the starting numbers for machines."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Link
PING_INTERVAL_S: Final = 15.0
PONG_DUE_S: Final = 10.0
OFFLINE_AFTER_S: Final = 45.0
CONNECTION_LEASE_S: Final = 90.0
KEEPALIVE_TIME_MS: Final = 30_000  # client
KEEPALIVE_TIMEOUT_MS: Final = 10_000
KEEPALIVE_MIN_PING_INTERVAL_MS: Final = 10_000  # what the server tolerates
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_CAP_S: Final = 60.0
BACKOFF_RESET_AFTER_S: Final = 60.0
CLOCK_SKEW_S: Final = 300.0
FRAME_BYTES: Final = 256 * KIB  # one coalesced gRPC message stays about this size
MESSAGE_MAX_BYTES: Final = 8 * MIB  # gRPC's receive limit on both sides; an offer holds the spec
WINDOW_BYTES: Final = 4 * MIB  # un-acknowledged output per stream
FLUSH_S: Final = 0.020
INPUT_WINDOW_BYTES: Final = 1 * MIB  # of a command's input beyond what its pipe has taken

# Spool and stored output, per stream
SPOOL_HEAD_BYTES: Final = 16 * MIB
SPOOL_TAIL_BYTES: Final = 48 * MIB
SPOOL_TOTAL_BYTES: Final = 1024 * MIB  # over all attempts of a machine
FREE_DISK_MIN_BYTES: Final = 256 * MIB

# Commands
START_WITHIN_DEFAULT_MS: Final = 24 * 3600 * 1000
START_WITHIN_MAX_MS: Final = 7 * 24 * 3600 * 1000
EXECUTION_TIMEOUT_DEFAULT_MS: Final = 30 * 60 * 1000
EXECUTION_TIMEOUT_MAX_MS: Final = 366 * 24 * 3600 * 1000
GRACE_MS: Final = 10_000  # TERM → KILL
QUIET_HINT_S: Final = 15.0  # quiet while somebody is to type: then it is said
LIMIT_COUNT_MAX: Final = 1 << 22  # of processes and open files: the most a Linux system has
LIMIT_MEMORY_MIN_BYTES: Final = 4 * MIB  # with less not even a shell starts
LIMIT_MEMORY_MAX_BYTES: Final = 1 << 50
LIMIT_OPEN_FILES_MIN: Final = 32  # a supervisor is under it too while it starts the command
CONCURRENCY_DEFAULT: Final = 4
LOCAL_QUEUE: Final = 16
SPEC_MAX_BYTES: Final = 6 * MIB  # argv + env + cwd as encoded; the OS's own limit is usually lower

# Enrolment and certificates
ENROLMENT_CODE_S: Final = 600
REDEEM_AGAIN_S: Final = 600  # the same key may redeem the same code again (crash after redeem)
CERTIFICATE_DAYS: Final = 7
CERTIFICATE_BACKDATE_S: Final = 600
RENEW_AFTER_FRACTION: Final = 0.5
RENEW_GRACE_DAYS: Final = 30  # proof-of-possession renewal after expiry

# People
CHAT_MESSAGE_MAX_BYTES: Final = 64 * KIB
REPLY_MAX_WORDS: Final = 100
