-- The release before this one knows no kinds: what it enrols is personal, and so it is in its eyes
-- too. It makes no environments, and a code for one makes another machine there, which is refused.
alter table machines
  add column kind text default 'personal' not null,
  add constraint ck_machines_kind_word check (kind in ('personal', 'managed', 'on_demand'));

alter table enrolment_codes
  add column kind text default 'personal' not null,
  add column for_machine_id uuid,
  add constraint fk_enrolment_codes_for_machine_id foreign key (instance_id, for_machine_id)
    references machines (instance_id, machine_id),
  add constraint ck_enrolment_codes_kind_word
    check (kind in ('personal', 'managed', 'on_demand'));

create table environments (
  instance_id uuid not null,
  machine_id uuid not null,
  requester_member_id uuid not null,
  ticket_id uuid,
  provisioner text not null,
  place text default '' not null,
  state text not null,
  reason text default '' not null,
  error text default '' not null,
  allow_inferred boolean default false not null,
  tries bigint default 0 not null,
  retry_at timestamptz,
  generation bigint default 0 not null,
  leased_by uuid,
  lease_until timestamptz,
  created_at timestamptz default farhand_now() not null,
  ready_at timestamptz,
  expires_at timestamptz not null,
  destroying_at timestamptz,
  destroyed_at timestamptz,
  primary key (instance_id, machine_id),
  constraint fk_environments_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id),
  constraint fk_environments_requester_member_id foreign key (instance_id, requester_member_id)
    references members (instance_id, member_id),
  constraint fk_environments_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint ck_environments_state_word
    check (state in ('creating', 'ready', 'destroying', 'destroyed'))
);

create unique index uq_environments_ticket on environments (instance_id, ticket_id)
  where state in ('creating', 'ready');
create index ix_environments_open on environments (provisioner, created_at)
  where state <> 'destroyed';

update schema_record set schema_version = 4, migrated_at = statement_timestamp();
