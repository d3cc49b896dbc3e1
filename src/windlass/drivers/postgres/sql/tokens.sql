-- Tokens that let programs in. core/tokens.py; column order: windlass.records.ApiToken.

-- name: create_token
-- Nothing is inserted when the name, the id or the secret is in use.
insert into windlass.api_tokens (token_id, name, digest, scopes, org_id, queues, expires_at, created_at)
values (:token_id, :name, :digest, :scopes::jsonb, :org_id, :queues::jsonb, windlass.at(:expires_at), windlass.at(:now))
on conflict do nothing
returning token_id;

-- name: revoke_token
update windlass.api_tokens set revoked_at = windlass.at(:now) where token_id = :token_id and revoked_at is null returning token_id;

-- name: note_use
-- core/tokens.py: needs_note
update windlass.api_tokens set last_used_at = windlass.at(:now)
 where token_id = :token_id and (last_used_at is null or last_used_at <= windlass.at(:before)) returning token_id;

-- name: token_exists
select token_id from windlass.api_tokens where token_id = :token_id;

-- name: all_tokens
select token_id, name, digest, scopes::text, org_id, queues::text, windlass.micros(expires_at), windlass.micros(last_used_at),
       windlass.micros(revoked_at), windlass.micros(created_at)
  from windlass.api_tokens order by api_tokens.created_at, token_id;

-- name: token_by_digest
select token_id, name, digest, scopes::text, org_id, queues::text, windlass.micros(expires_at), windlass.micros(last_used_at),
       windlass.micros(revoked_at), windlass.micros(created_at)
  from windlass.api_tokens where digest = :digest;
