-- Whether the request of a stored answer cost nothing. Such answers have a limit per user.
alter table idempotency_key add column cost_nothing boolean not null default true;

-- Ended runs that cost nothing, for a day, with the bytes that they store. They have a limit per user and day.
create table free_run (
  user_id uuid not null,
  run_id uuid not null,
  ended_at timestamptz(3) not null,
  bytes bigint not null,
  primary key (user_id, run_id)
);
create index free_run_by_age on free_run (ended_at);

-- Labels of calls that cost nothing, on the user's last day with any. They have a limit per user and day.
create table free_label_day (
  user_id uuid primary key,
  day date not null,
  new_values bigint not null,
  bytes bigint not null
);
