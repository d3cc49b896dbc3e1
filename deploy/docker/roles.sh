#!/bin/sh
# The roles of deploy/postgres/roles.sql, and one login for each that has a secret file: for the steps `roles` and `grants`
# of compose.yaml, before the migration and after it.
set -eu
secrets=${SECRETS:-/run/secrets}
PGPASSWORD=$(cat "$secrets/postgres_password")
export PGPASSWORD
psql -v ON_ERROR_STOP=1 -q -f "${ROLES_SQL:-/deploy/roles.sql}"
for role in owner producer worker observer operator; do
  SECRET="$secrets/${role}_password"
  test -f "$SECRET" || continue
  export SECRET
  psql -v ON_ERROR_STOP=1 -q -v login="shop_$role" -v role="windlass_$role" <<'SQL'
\set password `cat "$SECRET"`
select format('create role %I login', :'login') where not exists (select from pg_roles where rolname = :'login') \gexec
alter role :"login" password :'password';
grant :"role" to :"login";
select format('alter role %I set role %I', :'login', :'role') where :'role' = 'windlass_owner' \gexec
SQL
done
