-- The thresholds of alerts in per cent, in rising order: ALERT_PERCENTS of src/kernel/constants.ts, which a test compares.
-- ledger_used_percent has them as fractions, because it runs for every charge; the same test compares these too.
create or replace function ledger_thresholds() returns integer[] language sql immutable as $$ select array[50, 80, 100] $$;
