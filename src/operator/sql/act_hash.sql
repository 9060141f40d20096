-- The hash of an act: sha256 of the UTF-8 text of a JSON array with ", " between its elements, as for entries of the ledger.
-- Elements: previous hash (hex; 64 zeros before the first act), seq, id, operator_id, operator_name, what, target_type,
-- target_id, user_id, before and after as they are stored, reason, request_id, created_at.
create or replace function act_hash(
  previous bytea, seq bigint, id uuid, operator_id uuid, operator_name text, what text, target_type text, target_id text,
  user_id uuid, before json, after json, reason text, request_id text, created_at timestamptz
) returns bytea language sql stable as $$
  select sha256(convert_to(json_build_array(
    encode(previous, 'hex'), seq, id, operator_id, operator_name, what, target_type, target_id, user_id,
    before, after, reason, request_id,
    to_char(created_at::timestamptz(3) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  )::text, 'UTF8'))
$$;
