-- Begins run-nows that no other module has a say in: see begin_runs. A batch that only its own callers wait for does not
-- wait for the disk.
select begin_runs($1::jsonb, null, $2, $3, $4, $5, $6, $7) as refusals,
  case when $8 then set_config('synchronous_commit', 'off', true) end
