-- What each limited key and user has used in the last minute, over all nodes. A lost row only forgets a minute.
create table limit_window (
  -- such as requests:key:{id}
  subject text primary key,
  -- quarters of a second since 1970, oldest first, and what was used in each
  slots bigint[] not null,
  amounts bigint[] not null,
  used_at timestamptz not null
) with (fillfactor = 50);
create index limit_window_by_use on limit_window (used_at);
