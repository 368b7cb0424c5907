"""The composition root: the only place that knows every part of a replica and joins them."""

import asyncio
import os
from dataclasses import dataclass

import psycopg

from farhand_control_plane.agents.router import RouterAgent
from farhand_control_plane.agents.worker import WorkerAgent
from farhand_control_plane.api.access import Authenticator
from farhand_control_plane.api.built_page import BuiltPage
from farhand_control_plane.api.event_streams import EventStreams
from farhand_control_plane.api.exec import App
from farhand_control_plane.api.services import Addresses, Services
from farhand_control_plane.app import create_app
from farhand_control_plane.channels.chat import ChatChannel
from farhand_control_plane.channels.relay import Relay
from farhand_control_plane.config import Settings
from farhand_control_plane.db import machines as machine_rows
from farhand_control_plane.db.bootstrap import CHAT_KIND, INSTANCE_NAME, Bootstrap, ensure_instance
from farhand_control_plane.db.connect import rights_missing
from farhand_control_plane.db.listen import Listener
from farhand_control_plane.db.migrate import upgrade
from farhand_control_plane.db.pool import Database
from farhand_control_plane.domain.access import session_cookie
from farhand_control_plane.domain.environments import Limits, Offer
from farhand_control_plane.domain.words import SessionKind
from farhand_control_plane.engine.engine import Engine
from farhand_control_plane.ingest.due import DueLoop
from farhand_control_plane.ingest.tickets import reply_sent
from farhand_control_plane.llm.client import ModelClient, ModelService
from farhand_control_plane.llm.planner.app import MODEL_NAME, planner_app
from farhand_control_plane.machines.service import MachineService, MachineSettings
from farhand_control_plane.ports import bracketed, reachable_host
from farhand_control_plane.provisioning import registry
from farhand_control_plane.provisioning.loop import Provisioning
from farhand_control_plane.provisioning.provisioner import Site
from farhand_shared.errors import InvalidInput
from farhand_shared.ids import ReplicaId, new_id
from farhand_shared.redact import Secret


@dataclass(slots=True, kw_only=True)
class Replica:
    """Every part of one running replica. `serve` starts, watches and stops them."""

    replica_id: ReplicaId
    settings: Settings
    database: Database
    listener: Listener
    bootstrap: Bootstrap
    machines: MachineService
    engine: Engine
    relay: Relay
    due: DueLoop
    provisioning: Provisioning | None  # None: no provisioner is set
    event_streams: EventStreams
    app: App
    models: tuple[ModelClient, ...]
    serving: bool = False  # what /healthz says

    async def close(self) -> None:
        """Give back connections, after everything that uses them has stopped."""
        for model in self.models:
            await model.close()
        await self.listener.close()
        await self.database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A migrated, open database with its instance; nothing listens yet."""

    database: Database
    bootstrap: Bootstrap

    async def other_machines(self, *, own: str | None) -> bool:
        """Tell whether any machine but ``own`` is enrolled."""
        async with self.database.transaction() as tx:
            found = await machine_rows.list_all(tx, self.bootstrap.instance_id)
        return any(machine.machine_id != own for machine in found)


async def prepare(dsn: str) -> Prepared:
    """Bring the database to this code's schema, open it and see that it has an instance."""
    # Blocking, and the first time it imports the migration tool.
    await asyncio.to_thread(upgrade, dsn)
    database = Database(dsn)
    await database.open()
    try:
        async with database.transaction() as tx:
            bootstrap = await ensure_instance(tx)
    except psycopg.errors.InsufficientPrivilege as error:
        await database.close()
        raise rights_missing(dsn, error) from error
    except BaseException:
        await database.close()
        raise
    return Prepared(database=database, bootstrap=bootstrap)


def join(
    settings: Settings, prepared: Prepared, instance_key: Secret, ports: tuple[int, int]
) -> Replica:
    """Return a replica whose parts wait to be started; ``ports`` are of enrolment and of links."""
    database, bootstrap = prepared.database, prepared.bootstrap
    listener = Listener(database.dsn)
    replica_id = ReplicaId(new_id())
    enrol_port, link_port = ports
    host = reachable_host(settings.bind, settings.public_host)
    machines = MachineService(
        database=database,
        listener=listener,
        dsn=database.dsn,
        replica_id=replica_id,
        instance_id=bootstrap.instance_id,
        instance_key=instance_key.reveal(),
        settings=MachineSettings(
            enrol_bind=f"{bracketed(settings.bind)}:{enrol_port}",
            link_bind=f"{bracketed(settings.bind)}:{link_port}",
            link_advertise=f"{bracketed(host)}:{link_port}",
        ),
    )
    provisioning = _provisioning(settings, prepared, listener, replica_id)
    offer = None if provisioning is None else provisioning.offer
    router_model, worker_model = models(settings)
    engine = Engine(
        database,
        listener,
        {
            SessionKind.ROUTER: RouterAgent(router_model),
            SessionKind.WORKER: WorkerAgent(worker_model, offer=offer),
        },
        replica_id,
        slots=settings.session_slots,
    )
    relay = Relay(database, listener, {CHAT_KIND: ChatChannel()}, on_sent=reply_sent)
    event_streams = EventStreams(database, listener)

    def addresses() -> Addresses:
        return Addresses(
            public_url=settings.public_url,
            public_host=settings.public_host,
            bind=settings.bind,
            enrol_port=machines.enrol_port,
            link_port=machines.link_port,
            root_certificate_pem=machines.root_pem.decode("ascii"),
        )

    cookie = session_cookie(bootstrap.instance_id)
    services = Services(
        instance_id=bootstrap.instance_id,
        instance_name=INSTANCE_NAME,
        chat_source_id=bootstrap.chat_source_id,
        database=database,
        authenticator=Authenticator(
            database, listener, session_cookie=cookie, public_url=settings.public_url
        ),
        session_cookie=cookie,
        page=BuiltPage(),
        offline_planner=not settings.model_base_url,
        event_streams=event_streams,
        offer=offer,
        addresses=addresses,
        ready=lambda: replica.serving,
    )
    replica = Replica(
        replica_id=replica_id,
        settings=settings,
        database=database,
        listener=listener,
        bootstrap=bootstrap,
        machines=machines,
        engine=engine,
        relay=relay,
        due=DueLoop(database),
        provisioning=provisioning,
        event_streams=event_streams,
        app=create_app(services, machines.execs),
        models=(router_model, worker_model),
    )
    return replica


def _provisioning(
    settings: Settings, prepared: Prepared, listener: Listener, replica_id: ReplicaId
) -> Provisioning | None:
    """Return the work on environments, with the provisioner that is set; None when none is."""
    if not settings.provisioner:
        return None
    provisioner = registry.load(
        settings.provisioner,
        Site(
            instance_id=prepared.bootstrap.instance_id,
            folder=settings.environments,
            settings=settings,
            environ=os.environ,
        ),
    )
    return Provisioning(
        prepared.database,
        listener,
        instance_id=prepared.bootstrap.instance_id,
        replica_id=replica_id,
        provisioner=provisioner,
        offer=Offer(
            provisioner=settings.provisioner,
            os=provisioner.os,
            arch=provisioner.arch,
            limits=Limits(
                per_instance=settings.environments_max,
                per_member=settings.environments_per_member,
                lifetime_s=settings.environment_lifetime_s,
                grace_s=settings.environment_grace_s,
            ),
        ),
    )


def models(settings: Settings) -> tuple[ModelClient, ModelClient]:
    """Return the clients of the Router's and the Workers' models: the planner when none is set."""
    if settings.model_base_url and not settings.model:
        raise InvalidInput(
            "cannot use FARHAND_MODEL_BASE_URL: no model is named; set FARHAND_MODEL to one it has"
        )
    if not settings.model_base_url:
        service = ModelService(model=MODEL_NAME)
        return ModelClient(service, planner=planner_app), ModelClient(service, planner=planner_app)
    key = "" if settings.model_api_key is None else settings.model_api_key.reveal().decode()

    def client(name: str) -> ModelClient:
        return ModelClient(ModelService(model=name, base_url=settings.model_base_url, api_key=key))

    return client(settings.router_model or settings.model), client(settings.model)
