-- Adds a bonus bucket as an operator's adjustment, and repays debt from it first, as a grant does.
create or replace function ledger_adjust_up(
  of_user uuid, bucket_id uuid, amount bigint, of_reason text, instant timestamptz, expires timestamptz
) returns void language plpgsql as $$
declare
  repaid bigint;
begin
  perform ledger_expire(of_user, instant);
  select least(debt, amount) into strict repaid from account where user_id = of_user for update;
  insert into bucket (user_id, id, source, original, remaining, granted_at, expires_at, note, closed_reason, by_adjustment)
    values (of_user, bucket_id, 'bonus', amount, amount - repaid, instant, expires, of_reason,
      case when repaid = amount then 'clawed_back' end, true);
  perform ledger_post(of_user, 'adjustment', amount, bucket_id, amount, 0, 'Adjustment', instant);
  perform ledger_keep_reason(of_user, of_reason);
  if repaid > 0 then
    perform ledger_post(of_user, 'adjustment', -repaid, bucket_id, -repaid, 0, 'Debt repaid from this adjustment', instant);
    perform ledger_post(of_user, 'adjustment', repaid, null, 0, -repaid, 'Debt repaid', instant);
  end if;
  update account set granted = posted, notified_percent = 0, refills = refills + 1 where user_id = of_user;
end $$;
