-- Since when a schedule has been paused: an instant that is skipped for it tells. null: not paused, or paused before this
-- was written down.
alter table schedule add column paused_at timestamptz(3) check (paused_at is null or paused_reason is not null);
