-- Whether a late settle comes after the month of its call was archived: the charge is in a file, or about to be, and stays as
-- it is there. `last_entry` is that of the first charge, if the database still has it; otherwise the id of the hold, a UUIDv7,
-- tells when the call began. A charge without entries has the number of an older entry, so its time counts, too. `sealed_before`
-- comes before the plan. Such a settle is a month late, so ledger_apply_batch rarely asks.
create or replace function ledger_is_archived(of_user uuid, of_hold uuid, last_entry bigint) returns boolean
language sql stable as $$
  select exists (
    select from archived_account where user_id = of_user and case
      when last_entry is not null then exists (
        select from usage_event u where u.user_id = of_user and u.hold_id = of_hold
          and (u.created_at < sealed_before or last_entry <= planned_seq and u.created_at < before)
      )
      else ('x' || substr(replace(of_hold::text, '-', ''), 1, 12))::bit(48)::bigint < extract(epoch from before) * 1000
    end
  )
$$;
