"""The type of an open transaction, as repositories take it.

A repository never commits: who opened the transaction does. Rows come as dicts; ``uuid`` columns
come and go as text (the pool registers the adapters).
"""

from typing import Any

from psycopg import AsyncConnection

Tx = AsyncConnection[dict[str, Any]]
