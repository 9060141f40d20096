-- The hash of an entry: sha256 of the UTF-8 text of a JSON array with ", " between its elements. The owner of an export can
-- check it. Elements: previous hash (hex; 64 zeros before the first entry), user_id, seq, type, amount, balance_after,
-- bucket_id, source, hold_id, model, agent_id, run_id, request_id, api_key_id, description, created_at (ISO 8601, UTC, three
-- decimals, Z).
create or replace function entry_hash(
  previous bytea, user_id uuid, seq bigint, type text, amount bigint, balance_after bigint, bucket_id uuid, source text,
  hold_id uuid, model text, agent_id uuid, run_id uuid, request_id text, api_key_id uuid, description text, created_at timestamptz
) returns bytea language sql stable as $$
  select sha256(convert_to(json_build_array(
    encode(previous, 'hex'), user_id, seq, type, amount, balance_after, bucket_id, source, hold_id,
    model, agent_id, run_id, request_id, api_key_id, description,
    to_char(created_at::timestamptz(3) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  )::text, 'UTF8'))
$$;
