-- Appends an act to the chain, in the transaction of the act. It locks the end of the chain, so that acts have one order; call
-- it last, so that the lock is short.
create or replace function append_act(
  of_id uuid, of_operator uuid, of_name text, of_what text, of_type text, of_target text, of_user uuid,
  of_before json, of_after json, of_reason text, of_request text, instant timestamptz
) returns bigint language plpgsql as $$
declare
  chain operator_act_chain;
begin
  update operator_act_chain set seq = seq + 1 returning * into strict chain;
  chain.last_hash := act_hash(chain.last_hash, chain.seq, of_id, of_operator, of_name, of_what, of_type, of_target, of_user,
    of_before, of_after, of_reason, of_request, instant);
  insert into operator_act (seq, id, operator_id, operator_name, what, target_type, target_id, user_id, before, after, reason,
      request_id, created_at, hash)
    values (chain.seq, of_id, of_operator, of_name, of_what, of_type, of_target, of_user, of_before, of_after, of_reason,
      of_request, instant, chain.last_hash);
  update operator_act_chain set last_hash = chain.last_hash;
  return chain.seq;
end $$;
