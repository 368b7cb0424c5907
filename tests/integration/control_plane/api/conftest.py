"""The whole application of a replica in this process, on a fresh database, and clients of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from farhand_control_plane import wiring
from farhand_control_plane.config import load
from farhand_control_plane.db import tokens
from farhand_control_plane.domain.access import ALL_SCOPES, Scope, new_token, token_hash
from farhand_control_plane.wiring import Replica
from farhand_shared.ids import InstanceId, MemberId
from farhand_shared.redact import Secret

MakeToken = Callable[..., Awaitable[str]]
MakeClient = Callable[..., Awaitable[httpx2.AsyncClient]]


@pytest.fixture
def replica_environ() -> dict[str, str]:
    """Settings of the replica beside its home; a test may name others."""
    return {}


@pytest.fixture
async def replica(
    migrated_url: str, tmp_path: Path, replica_environ: dict[str, str]
) -> AsyncIterator[Replica]:
    """A replica that hears and listens for machines; its engine and relay do not run."""
    settings = load({"FARHAND_HOME": str(tmp_path), **replica_environ})
    prepared = await wiring.prepare(migrated_url)
    replica = wiring.join(settings, prepared, Secret(b"k" * 32), (0, 0))
    await replica.listener.open()
    await replica.machines.open()
    replica.serving = True
    try:
        yield replica
    finally:
        replica.event_streams.close()
        await replica.machines.close()
        await replica.close()


@pytest.fixture
def make_token(replica: Replica) -> MakeToken:
    """Make a token of the owner, with these scopes (all when none is named)."""

    async def make(
        *scopes: Scope, instance_id: InstanceId | None = None, member_id: MemberId | None = None
    ) -> str:
        token = new_token()
        async with replica.database.transaction() as tx:
            await tokens.create(
                tx,
                instance_id or replica.bootstrap.instance_id,
                member_id or replica.bootstrap.owner_member_id,
                name="test",
                token_sha256=token_hash(token),
                scopes=scopes or ALL_SCOPES,
            )
        return token

    return make


@pytest.fixture
async def make_client(replica: Replica) -> AsyncIterator[MakeClient]:
    """Give a client that presents a token, or none."""
    made: list[httpx2.AsyncClient] = []

    async def make(token: str | None = None) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(replica.app, raise_app_exceptions=False),
            base_url="http://farhand.test",
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
        )
        made.append(client)
        return client

    yield make
    for client in made:
        await client.aclose()


@pytest.fixture
async def client(make_client: MakeClient, make_token: MakeToken) -> httpx2.AsyncClient:
    """A client with every scope."""
    return await make_client(await make_token())


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """What a browser holds once somebody has signed in with it."""

    cookie: str  # NAME=SECRET
    page_key: str

    @property
    def secret(self) -> str:
        return self.cookie.partition("=")[2]

    def headers(self, *, cookie: str | None = None, page_key: str | None = None) -> dict[str, str]:
        """Return what it sends from our own page; another half, or none ("") where one is named."""
        sent = {
            "Cookie": self.cookie if cookie is None else cookie,
            "Farhand-Page-Key": self.page_key if page_key is None else page_key,
            "Origin": "http://farhand.test",
        }
        return {name: value for name, value in sent.items() if value}


SignIn = Callable[..., Awaitable[Browser]]


@pytest.fixture
def sign_in(make_client: MakeClient, make_token: MakeToken) -> SignIn:
    """Sign a browser in, by a link that is made with a token of these scopes."""

    async def open_link(*scopes: Scope, member_id: MemberId | None = None) -> Browser:
        maker = await make_client(await make_token(*scopes, member_id=member_id))
        link = (await maker.post("/v1/sign-in/links")).json()
        token = link["url"].partition("#")[2]
        answer = await (await make_client()).post("/v1/sign-in", json={"token": token})
        assert answer.status_code == 201, answer.text
        return Browser(
            cookie=answer.headers["set-cookie"].partition(";")[0],
            page_key=answer.json()["page_key"],
        )

    return open_link
