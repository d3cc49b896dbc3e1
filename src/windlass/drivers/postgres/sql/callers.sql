-- On connections that are not ours.

-- name: who
-- Which store, in which database of which server: a copy of a store has its number, and a copied database its name. And how
-- isolated the transaction is.
select (select value from windlass.meta where key = 'store_id'), current_database()::text,
       (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint, current_setting('transaction_isolation');

-- name: tell
select pg_notify(:channel::text, queue) from unnest(:queues::text[]) as asked (queue);
