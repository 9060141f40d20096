-- A run's failed steps, and how many of them were calls of tools: such a run ends with errors even if it succeeds.
alter table run add column failed_steps integer not null default 0, add column failed_calls integer not null default 0;
