-- The schema of the first release, frozen: later changes are migrations of their own.
-- A test compares the migrated schema with tables.py, so the two cannot drift apart.

-- Database time, the only clock of leases and deadlines. One value per statement, and never later
-- than the moment the statement runs, so a lease taken after a wait for a lock is short, not long.
-- Tests shift it through schema_record.clock_shift_ms.
create function farhand_now() returns timestamptz
language plpgsql stable parallel safe as $$
begin
  return statement_timestamp()
    + (select clock_shift_ms from schema_record) * interval '1 millisecond';
end
$$;

create table ca_keys (
  ca_key_id uuid not null,
  certificate_pem text not null,
  spki_sha256 bytea not null,
  wrapped_private_key bytea not null,
  created_at timestamptz default farhand_now() not null,
  retired_at timestamptz,
  primary key (ca_key_id)
);

create table instances (
  instance_id uuid not null,
  name text not null,
  next_event_seq bigint default 1 not null,
  settings jsonb default '{}'::jsonb not null,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id)
);

create table output_chunks (
  instance_id uuid not null,
  week timestamptz not null,
  attempt_id uuid not null,
  stream smallint not null,
  start_offset bigint not null,
  data bytea not null,
  primary key (instance_id, week, attempt_id, stream, start_offset)
) partition by range (week);

create table replicas (
  replica_id uuid not null,
  address text not null,
  version text not null,
  started_at timestamptz default farhand_now() not null,
  seen_at timestamptz default farhand_now() not null,
  primary key (replica_id)
);

create table schema_record (
  one boolean default true not null,
  min_code_version bigint not null,
  schema_version bigint not null,
  migrated_at timestamptz default farhand_now() not null,
  clock_shift_ms bigint default 0 not null,
  primary key (one),
  constraint ck_schema_record_one_row check (one)
);

create table events (
  instance_id uuid not null,
  seq bigint not null,
  kind text not null,
  subject_id uuid,
  thread_id uuid,
  ticket_id uuid,
  payload jsonb default '{}'::jsonb not null,
  at timestamptz default farhand_now() not null,
  primary key (instance_id, seq),
  constraint fk_events_instance foreign key (instance_id) references instances (instance_id)
);

create table members (
  instance_id uuid not null,
  member_id uuid not null,
  name text not null,
  role text not null,
  created_at timestamptz default farhand_now() not null,
  removed_at timestamptz,
  primary key (instance_id, member_id),
  constraint fk_members_instance foreign key (instance_id) references instances (instance_id),
  constraint ck_members_role_word check (role in ('owner', 'member', 'viewer'))
);

create table policies (
  instance_id uuid not null,
  version bigint not null,
  rules jsonb default '{}'::jsonb not null,
  made_by_member_id uuid,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, version),
  constraint fk_policies_instance foreign key (instance_id) references instances (instance_id)
);

create table sessions (
  instance_id uuid not null,
  session_id uuid not null,
  kind text not null,
  shard_key text default '' not null,
  ticket_id uuid,
  ready_at timestamptz,
  wake_at timestamptz,
  lease_owner uuid,
  lease_until timestamptz,
  generation bigint default 0 not null,
  next_item_seq bigint default 1 not null,
  resumes_charged bigint default 0 not null,
  tombstoned_at timestamptz,
  ended_at timestamptz,
  error text,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, session_id),
  constraint fk_sessions_instance foreign key (instance_id) references instances (instance_id),
  constraint ck_sessions_kind_word check (kind in ('router', 'worker', 'watchdog'))
);
create index ix_sessions_lease on sessions (lease_until) where lease_until is not null;
create index ix_sessions_ready on sessions (ready_at) where ready_at is not null;
create index ix_sessions_wake on sessions (wake_at) where wake_at is not null;
create unique index uq_sessions_router on sessions (instance_id, shard_key) where kind = 'router';

create table sources (
  instance_id uuid not null,
  source_id uuid not null,
  kind text not null,
  name text not null,
  settings jsonb default '{}'::jsonb not null,
  cursor jsonb,
  created_at timestamptz default farhand_now() not null,
  removed_at timestamptz,
  primary key (instance_id, source_id),
  constraint fk_sources_instance foreign key (instance_id) references instances (instance_id),
  constraint uq_sources_name unique (instance_id, kind, name)
);

create table api_tokens (
  instance_id uuid not null,
  token_id uuid not null,
  member_id uuid not null,
  name text not null,
  token_sha256 bytea not null,
  scopes text[] default '{}' not null,
  machine_id uuid,
  created_at timestamptz default farhand_now() not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  used_at timestamptz,
  primary key (instance_id, token_id),
  constraint fk_api_tokens_member_id foreign key (instance_id, member_id)
    references members (instance_id, member_id),
  unique (token_sha256)
);

create table identities (
  instance_id uuid not null,
  provider text not null,
  external_id text not null,
  member_id uuid not null,
  proved_at timestamptz default farhand_now() not null,
  primary key (instance_id, provider, external_id),
  constraint fk_identities_member_id foreign key (instance_id, member_id)
    references members (instance_id, member_id)
);

create table inbox (
  instance_id uuid not null,
  session_id uuid not null,
  seq bigint generated always as identity,
  kind text not null,
  dedupe_key text not null,
  wakes boolean default true not null,
  payload jsonb default '{}'::jsonb not null,
  created_at timestamptz default farhand_now() not null,
  consumed_by_seq bigint,
  parked_at timestamptz,
  primary key (instance_id, session_id, seq),
  constraint fk_inbox_session_id foreign key (instance_id, session_id)
    references sessions (instance_id, session_id),
  constraint uq_inbox_dedupe unique (instance_id, session_id, dedupe_key)
);
create index ix_inbox_pending
  on inbox (instance_id, session_id, seq)
  where consumed_by_seq is null and parked_at is null;

create table items (
  instance_id uuid not null,
  session_id uuid not null,
  item_seq bigint not null,
  kind text not null,
  payload jsonb default '{}'::jsonb not null,
  generation bigint not null,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, session_id, item_seq),
  constraint fk_items_session_id foreign key (instance_id, session_id)
    references sessions (instance_id, session_id)
);

create table machines (
  instance_id uuid not null,
  machine_id uuid not null,
  owner_member_id uuid not null,
  name text not null,
  status text not null,
  trust_level text default 'off' not null,
  chosen_by text default '' not null,
  allow_inferred boolean default false not null,
  concurrency bigint default 4 not null,
  labels jsonb default '{}'::jsonb not null,
  facts jsonb default '{}'::jsonb not null,
  capability bigint default 0 not null,
  daemon_version text default '' not null,
  words text[] default '{}' not null,
  journal_id text,
  journal_counter bigint default 0 not null,
  created_at timestamptz default farhand_now() not null,
  activated_at timestamptz,
  revoked_at timestamptz,
  seen_at timestamptz,
  primary key (instance_id, machine_id),
  constraint fk_machines_owner_member_id foreign key (instance_id, owner_member_id)
    references members (instance_id, member_id),
  constraint ck_machines_status_word
    check (status in ('pending', 'active', 'paused', 'quarantined', 'revoked'))
);
create unique index uq_machines_name on machines (instance_id, name) where status <> 'revoked';

create table raw_deliveries (
  instance_id uuid not null,
  source_id uuid not null,
  delivery_key text not null,
  headers jsonb default '{}'::jsonb not null,
  body bytea not null,
  received_at timestamptz default farhand_now() not null,
  processed_at timestamptz,
  error text,
  primary key (instance_id, source_id, delivery_key),
  constraint fk_raw_deliveries_source_id foreign key (instance_id, source_id)
    references sources (instance_id, source_id)
);

create table threads (
  instance_id uuid not null,
  thread_id uuid not null,
  source_id uuid not null,
  external_key text not null,
  next_seq bigint default 1 not null,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, thread_id),
  constraint fk_threads_source_id foreign key (instance_id, source_id)
    references sources (instance_id, source_id),
  constraint uq_threads_key unique (instance_id, source_id, external_key)
);

create table usage (
  instance_id uuid not null,
  usage_id uuid not null,
  session_id uuid not null,
  ticket_id uuid,
  model text not null,
  prompt_tokens bigint default 0 not null,
  cached_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  price_micros bigint default 0 not null,
  at timestamptz default farhand_now() not null,
  primary key (instance_id, usage_id),
  constraint fk_usage_session_id foreign key (instance_id, session_id)
    references sessions (instance_id, session_id)
);

create table certificates (
  instance_id uuid not null,
  serial text not null,
  machine_id uuid not null,
  spki_sha256 bytea not null,
  not_before timestamptz not null,
  not_after timestamptz not null,
  issued_at timestamptz default farhand_now() not null,
  replaced_at timestamptz,
  revoked_at timestamptz,
  primary key (instance_id, serial),
  constraint fk_certificates_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id)
);

create table enrolment_codes (
  instance_id uuid not null,
  code_id uuid not null,
  secret_sha256 bytea not null,
  made_by_member_id uuid not null,
  name text,
  created_at timestamptz default farhand_now() not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  used_spki_sha256 bytea,
  machine_id uuid,
  certificate_der bytea,
  primary key (instance_id, code_id),
  constraint fk_enrolment_codes_made_by_member_id foreign key (instance_id, made_by_member_id)
    references members (instance_id, member_id),
  constraint fk_enrolment_codes_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id),
  unique (secret_sha256)
);

create table evals (
  instance_id uuid not null,
  eval_id uuid not null,
  thread_id uuid not null,
  state text not null,
  strength text not null,
  requester_member_id uuid,
  policy_version bigint not null,
  last_seq_seen bigint not null,
  gate jsonb default '{}'::jsonb not null,
  verdict text,
  attached_ticket_id uuid,
  reason text default '' not null,
  lease_until timestamptz,
  tries bigint default 0 not null,
  created_at timestamptz default farhand_now() not null,
  closed_at timestamptz,
  primary key (instance_id, eval_id),
  constraint fk_evals_thread_id foreign key (instance_id, thread_id)
    references threads (instance_id, thread_id),
  constraint fk_evals_policy_version foreign key (instance_id, policy_version)
    references policies (instance_id, version),
  constraint ck_evals_state_word check (state in ('running', 'pending', 'closed')),
  constraint ck_evals_strength_word check (strength in ('explicit', 'inferred')),
  constraint ck_evals_verdict_word
    check (verdict is null or verdict in ('accept', 'attach', 'answer', 'stop', 'ignore', 'unavailable')),
  constraint ck_evals_closed_has_verdict check ((state = 'closed') = (verdict is not null))
);
create unique index uq_evals_one_running on evals (instance_id, thread_id) where state = 'running';

create table machine_connections (
  instance_id uuid not null,
  machine_id uuid not null,
  replica_id uuid,
  address text default '' not null,
  epoch bigint default 0 not null,
  daemon_instance_id text,
  connected_at timestamptz,
  lease_until timestamptz,
  primary key (instance_id, machine_id),
  constraint fk_machine_connections_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id)
);

create table tool_calls (
  instance_id uuid not null,
  session_id uuid not null,
  item_seq bigint not null,
  call_index bigint not null,
  call_id text not null,
  name text not null,
  arguments jsonb default '{}'::jsonb not null,
  state text not null,
  waits_for text,
  wait_until timestamptz,
  result jsonb,
  created_at timestamptz default farhand_now() not null,
  done_at timestamptz,
  primary key (instance_id, session_id, item_seq, call_index),
  constraint fk_tool_calls_session_id_item_seq foreign key (instance_id, session_id, item_seq)
    references items (instance_id, session_id, item_seq),
  constraint ck_tool_calls_state_word check (state in ('intended', 'waiting', 'done'))
);
create index ix_tool_calls_open on tool_calls (instance_id, session_id) where state <> 'done';

create table triggers (
  instance_id uuid not null,
  trigger_id uuid not null,
  source_id uuid not null,
  provider_event_id text not null,
  revision text default '' not null,
  thread_id uuid not null,
  thread_seq bigint not null,
  kind text not null,
  sender_external_id text not null,
  sender_member_id uuid,
  sender_is_bot boolean default false not null,
  strength text,
  text text default '' not null,
  details jsonb default '{}'::jsonb not null,
  replaces_trigger_id uuid,
  occurred_at timestamptz,
  received_at timestamptz default farhand_now() not null,
  primary key (instance_id, trigger_id),
  constraint fk_triggers_source_id foreign key (instance_id, source_id)
    references sources (instance_id, source_id),
  constraint fk_triggers_thread_id foreign key (instance_id, thread_id)
    references threads (instance_id, thread_id),
  constraint fk_triggers_replaces_trigger_id foreign key (instance_id, replaces_trigger_id)
    references triggers (instance_id, trigger_id),
  constraint uq_triggers_event unique (instance_id, source_id, provider_event_id, revision),
  constraint uq_triggers_thread_seq unique (instance_id, thread_id, thread_seq)
);

create table eval_triggers (
  instance_id uuid not null,
  eval_id uuid not null,
  trigger_id uuid not null,
  primary key (instance_id, eval_id, trigger_id),
  constraint fk_eval_triggers_eval_id foreign key (instance_id, eval_id)
    references evals (instance_id, eval_id),
  constraint fk_eval_triggers_trigger_id foreign key (instance_id, trigger_id)
    references triggers (instance_id, trigger_id)
);
create index ix_eval_triggers_trigger on eval_triggers (instance_id, trigger_id);

create table tickets (
  instance_id uuid not null,
  ticket_id uuid not null,
  eval_id uuid not null,
  title text not null,
  request text not null,
  requester_member_id uuid not null,
  inferred boolean default false not null,
  created_at timestamptz default farhand_now() not null,
  closed_at timestamptz,
  outcome text,
  closed_by_member_id uuid,
  primary key (instance_id, ticket_id),
  constraint fk_tickets_eval_id foreign key (instance_id, eval_id)
    references evals (instance_id, eval_id),
  constraint fk_tickets_requester_member_id foreign key (instance_id, requester_member_id)
    references members (instance_id, member_id),
  constraint uq_tickets_eval unique (instance_id, eval_id),
  constraint ck_tickets_outcome_word
    check (outcome is null or outcome in ('done', 'stopped', 'expired')),
  constraint ck_tickets_closed_has_outcome check ((closed_at is null) = (outcome is null))
);
create index ix_tickets_open on tickets (instance_id, created_at) where closed_at is null;
create index ix_tickets_closed
  on tickets (instance_id, closed_at, ticket_id)
  where closed_at is not null;

create table assignments (
  instance_id uuid not null,
  assignment_id uuid not null,
  ticket_id uuid not null,
  session_id uuid not null,
  started_at timestamptz default farhand_now() not null,
  ended_at timestamptz,
  end_reason text,
  primary key (instance_id, assignment_id),
  constraint fk_assignments_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint fk_assignments_session_id foreign key (instance_id, session_id)
    references sessions (instance_id, session_id),
  constraint ck_assignments_end_reason_word
    check (end_reason is null or end_reason in ('finished', 'stopped', 'tombstoned', 'replaced'))
);
create index ix_assignments_ticket on assignments (instance_id, ticket_id, started_at);
create index ix_assignments_session on assignments (instance_id, session_id);
create unique index uq_assignments_one_live
  on assignments (instance_id, ticket_id)
  where ended_at is null;

create table commands (
  instance_id uuid not null,
  command_id uuid not null,
  machine_id uuid not null,
  requester_member_id uuid not null,
  ticket_id uuid,
  session_id uuid,
  item_seq bigint,
  call_index bigint,
  title text default '' not null,
  spec bytea not null,
  input_digest bytea not null,
  tier smallint default 5 not null,
  inferred boolean default false not null,
  mandate_hash bytea,
  supersede_key text,
  start_expires_at timestamptz not null,
  traceparent text default '' not null,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, command_id),
  constraint fk_commands_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id),
  constraint fk_commands_requester_member_id foreign key (instance_id, requester_member_id)
    references members (instance_id, member_id),
  constraint fk_commands_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint uq_commands_effect unique (session_id, item_seq, call_index, instance_id)
);
create index ix_commands_ticket on commands (ticket_id, instance_id);

create table deliveries (
  instance_id uuid not null,
  trigger_id uuid not null,
  ticket_id uuid not null,
  state text not null,
  tries bigint default 0 not null,
  next_try_at timestamptz,
  error text,
  created_at timestamptz default farhand_now() not null,
  handed_back_at timestamptz,
  primary key (instance_id, trigger_id, ticket_id),
  constraint fk_deliveries_trigger_id foreign key (instance_id, trigger_id)
    references triggers (instance_id, trigger_id),
  constraint fk_deliveries_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint ck_deliveries_state_word
    check (state in ('pending', 'delivered', 'handed_back', 'failed'))
);
create index ix_deliveries_ticket on deliveries (instance_id, ticket_id);
create index ix_deliveries_late on deliveries (next_try_at) where state = 'pending';

create table mandates (
  instance_id uuid not null,
  mandate_id uuid not null,
  ticket_id uuid not null,
  eval_id uuid not null,
  policy_version bigint not null,
  scope jsonb default '{}'::jsonb not null,
  mandate_hash bytea not null,
  granted_by_member_id uuid not null,
  valid_until timestamptz not null,
  created_at timestamptz default farhand_now() not null,
  primary key (instance_id, mandate_id),
  constraint fk_mandates_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint fk_mandates_eval_id foreign key (instance_id, eval_id)
    references evals (instance_id, eval_id),
  constraint fk_mandates_granted_by_member_id foreign key (instance_id, granted_by_member_id)
    references members (instance_id, member_id),
  constraint uq_mandates_ticket unique (instance_id, ticket_id)
);

create table outbox (
  instance_id uuid not null,
  outbox_id uuid not null,
  thread_id uuid not null,
  ticket_id uuid,
  reply_to_trigger_id uuid,
  kind text not null,
  body jsonb default '{}'::jsonb not null,
  idempotency_key text not null,
  state text not null,
  thread_position bigint generated always as identity,
  tries bigint default 0 not null,
  next_try_at timestamptz,
  error text,
  send_result jsonb,
  created_at timestamptz default farhand_now() not null,
  sent_at timestamptz,
  primary key (instance_id, outbox_id),
  constraint fk_outbox_thread_id foreign key (instance_id, thread_id)
    references threads (instance_id, thread_id),
  constraint fk_outbox_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint ck_outbox_state_word
    check (state in ('draft', 'ready', 'sending', 'sent', 'unknown', 'dead', 'discarded')),
  constraint uq_outbox_key unique (instance_id, idempotency_key)
);
create index ix_outbox_ticket on outbox (instance_id, ticket_id);
create index ix_outbox_order
  on outbox (instance_id, thread_id, thread_position)
  where state in ('ready', 'sending', 'unknown');
create index ix_outbox_due on outbox (next_try_at) where state in ('ready', 'sending', 'unknown');

create table questions (
  instance_id uuid not null,
  question_id uuid not null,
  ticket_id uuid,
  thread_id uuid,
  text text not null,
  options jsonb default '[]'::jsonb not null,
  default_option text,
  if_unanswered text default '' not null,
  state text default 'pending' not null,
  asked_at timestamptz default farhand_now() not null,
  answer text,
  answered_by_member_id uuid,
  settled_at timestamptz,
  primary key (instance_id, question_id),
  constraint fk_questions_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint fk_questions_thread_id foreign key (instance_id, thread_id)
    references threads (instance_id, thread_id),
  constraint ck_questions_state_word
    check (state in ('pending', 'answered', 'denied', 'expired', 'superseded'))
);
create index ix_questions_pending on questions (instance_id, ticket_id) where state = 'pending';

create table reports (
  instance_id uuid not null,
  report_id uuid not null,
  ticket_id uuid not null,
  session_id uuid not null,
  kind text not null,
  text text not null,
  accept text default '' not null,
  command_ids jsonb default '[]'::jsonb not null,
  created_at timestamptz default farhand_now() not null,
  delivered_at timestamptz,
  primary key (instance_id, report_id),
  constraint fk_reports_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id),
  constraint fk_reports_session_id foreign key (instance_id, session_id)
    references sessions (instance_id, session_id),
  constraint ck_reports_kind_word
    check (kind in ('progress', 'question', 'ready', 'blocked', 'failed'))
);
create index ix_reports_undelivered
  on reports (created_at)
  where delivered_at is null and kind <> 'progress';
create index ix_reports_ticket on reports (instance_id, ticket_id, created_at);

create table subscriptions (
  instance_id uuid not null,
  thread_id uuid not null,
  ticket_id uuid not null,
  from_seq bigint not null,
  created_at timestamptz default farhand_now() not null,
  ended_at timestamptz,
  primary key (instance_id, thread_id, ticket_id),
  constraint fk_subscriptions_thread_id foreign key (instance_id, thread_id)
    references threads (instance_id, thread_id),
  constraint fk_subscriptions_ticket_id foreign key (instance_id, ticket_id)
    references tickets (instance_id, ticket_id)
);
create index ix_subscriptions_ticket on subscriptions (instance_id, ticket_id);

create table attempts (
  instance_id uuid not null,
  attempt_id uuid not null,
  command_id uuid not null,
  machine_id uuid not null,
  state text not null,
  epoch bigint,
  journal_id text,
  journal_counter bigint,
  plan_hash bytea,
  queued_at timestamptz default farhand_now() not null,
  offered_at timestamptz,
  acknowledged_at timestamptz,
  started_at timestamptz,
  pid bigint,
  boot_id text,
  stop_reason text,
  ended_at timestamptz,
  reason text,
  exit_code integer,
  signal integer,
  error_code text default '' not null,
  error text default '' not null,
  result_hash bytea,
  result jsonb,
  stdout_stored bigint default 0 not null,
  stderr_stored bigint default 0 not null,
  omitted jsonb default '[]'::jsonb not null,
  primary key (instance_id, attempt_id),
  constraint fk_attempts_command_id foreign key (instance_id, command_id)
    references commands (instance_id, command_id),
  constraint fk_attempts_machine_id foreign key (instance_id, machine_id)
    references machines (instance_id, machine_id),
  constraint ck_attempts_state_word
    check (state in ('queued', 'offered', 'awaiting_owner', 'journalled', 'started', 'stopping', 'exited', 'spawn_error', 'refused', 'expired', 'superseded', 'cancelled_before_start', 'indeterminate', 'lost'))
);
create index ix_attempts_command on attempts (command_id, instance_id);
create index ix_attempts_open
  on attempts (instance_id, machine_id, queued_at)
  where state in ('queued','offered','awaiting_owner','journalled','started','stopping');

create table mandate_withdrawals (
  instance_id uuid not null,
  mandate_id uuid not null,
  withdrawn_by_member_id uuid not null,
  reason text default '' not null,
  withdrawn_at timestamptz default farhand_now() not null,
  primary key (instance_id, mandate_id),
  constraint fk_mandate_withdrawals_mandate_id foreign key (instance_id, mandate_id)
    references mandates (instance_id, mandate_id),
  constraint fk_mandate_withdrawals_withdrawn_by_member_id foreign key (instance_id, withdrawn_by_member_id)
    references members (instance_id, member_id)
);

create table approvals (
  instance_id uuid not null,
  attempt_id uuid not null,
  plan_hash bytea not null,
  state text default 'pending' not null,
  answered_by_member_id uuid,
  asked_at timestamptz default farhand_now() not null,
  answered_at timestamptz,
  primary key (instance_id, attempt_id),
  constraint fk_approvals_attempt_id foreign key (instance_id, attempt_id)
    references attempts (instance_id, attempt_id),
  constraint ck_approvals_state_word
    check (state in ('pending', 'answered', 'denied', 'expired', 'superseded'))
);

-- ── what no table class can say ─────────────────────────────────────────────────────────────────

insert into schema_record (min_code_version, schema_version, migrated_at, clock_shift_ms)
values (1, 1, statement_timestamp(), 0);

-- Rows that are rewritten all the time get room for it in their page.
alter table sessions set (fillfactor = 70);
alter table machine_connections set (fillfactor = 70);

-- Output is bytes that compress badly and are read in slices.
alter table output_chunks alter column data set storage external;

-- A Mandate, a Trigger and an entry of a log are facts: no statement changes them.
create function farhand_refuse_change() returns trigger
language plpgsql as $$
begin
  raise exception using
    errcode = 'restrict_violation',
    message = 'cannot change a row of ' || tg_table_name || ': it never changes; add a new one';
end
$$;

create trigger mandates_never_change before update on mandates
  for each row execute function farhand_refuse_change();
create trigger triggers_never_change before update on triggers
  for each row execute function farhand_refuse_change();
create trigger items_never_change before update on items
  for each row execute function farhand_refuse_change();

-- Output lies in one partition per week, named by its Monday; what fits none lands in the default.
create table output_chunks_default partition of output_chunks default;
alter table output_chunks_default alter column data set storage external;

-- Makes the partitions of this week and of the next ones; returns how many were new. A week of
-- which the default partition holds rows is left there, until those rows are dropped.
create function farhand_make_output_weeks(weeks_ahead integer) returns integer
language plpgsql as $$
declare
  monday timestamptz;
  partition_name text;
  made integer := 0;
begin
  perform pg_advisory_xact_lock(hashtext('farhand_make_output_weeks'));
  for week_number in 0 .. weeks_ahead loop
    monday := date_trunc('week', farhand_now(), 'UTC') + make_interval(days => 7 * week_number);
    partition_name := 'output_chunks_' || to_char(monday at time zone 'UTC', 'YYYYMMDD');
    continue when to_regclass(partition_name) is not null;
    continue when exists (
      select from output_chunks_default
      where week >= monday and week < monday + interval '7 days'
    );
    -- Made apart and attached: that locks out nobody who writes other weeks.
    execute 'create table ' || quote_ident(partition_name)
      || ' (like output_chunks including defaults including storage including constraints)';
    execute 'alter table output_chunks attach partition ' || quote_ident(partition_name)
      || ' for values from (' || quote_literal(monday)
      || ') to (' || quote_literal(monday + interval '7 days') || ')';
    made := made + 1;
  end loop;
  return made;
end
$$;

-- Drops whole weeks that ended before a moment, and such rows of the default partition; returns
-- how many weeks were dropped.
create function farhand_drop_output_before(moment timestamptz) returns integer
language plpgsql as $$
declare
  partition_name text;
  dropped integer := 0;
begin
  for partition_name in
    select c.relname from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'output_chunks'::regclass and c.relname ~ '^output_chunks_[0-9]{8}$'
  loop
    continue when (to_date(right(partition_name, 8), 'YYYYMMDD')::timestamp at time zone 'UTC')
      + interval '7 days' > moment;
    execute 'drop table ' || quote_ident(partition_name);
    dropped := dropped + 1;
  end loop;
  delete from output_chunks_default where week + interval '7 days' <= moment;
  return dropped;
end
$$;

select farhand_make_output_weeks(8);
