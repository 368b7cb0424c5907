-- A session of a browser is a token that needs a second secret. The release before this one neither
-- writes the column nor opens anything to a session: it refuses such a token by its form.
alter table api_tokens
  add column page_key_sha256 bytea,
  add constraint ck_api_tokens_session_ends
    check (page_key_sha256 is null or expires_at is not null);

create table sign_in_links (
  instance_id uuid not null,
  link_id uuid not null,
  link_sha256 bytea not null,
  member_id uuid not null,
  scopes text[] default '{}' not null,
  made_with_token_id uuid not null,
  created_at timestamptz default farhand_now() not null,
  expires_at timestamptz not null,
  used_at timestamptz,
  primary key (instance_id, link_id),
  constraint fk_sign_in_links_member_id foreign key (instance_id, member_id)
    references members (instance_id, member_id),
  constraint fk_sign_in_links_made_with_token_id foreign key (instance_id, made_with_token_id)
    references api_tokens (instance_id, token_id),
  unique (link_sha256)
);

update schema_record set schema_version = 2, migrated_at = statement_timestamp();
