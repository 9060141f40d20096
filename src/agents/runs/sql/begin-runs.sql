-- Begins run-nows without a check by other modules, see begin_runs. A batch does not wait for the disk if all its
-- callers wait for the ends of their runs.
select begin_runs($1::jsonb, null, $2, $3, $4, $5, $6, $7, $9::jsonb) as refusals,
  case when $8 then set_config('synchronous_commit', 'off', true) end
