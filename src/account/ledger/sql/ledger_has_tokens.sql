-- A quick check whether the user can pay for a call. true is certain; false needs a full check.
create or replace function ledger_has_tokens(of_user uuid, instant timestamptz) returns boolean language plpgsql stable as $$
begin
  return exists (
      select from account
        where user_id = of_user and (trial_ends_at is null or trial_ends_at > instant or paid_since is not null)
    ) and exists (
      select from bucket
        where user_id = of_user and closed_reason is null and expires_at > instant and remaining > held
    );
end $$;
