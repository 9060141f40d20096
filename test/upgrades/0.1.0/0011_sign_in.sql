-- People's sign-in: passwords, sessions, and the links that are mailed. Of tokens only the SHA-256 is kept.

create table password (
  user_id uuid primary key references users (id),
  -- scrypt$N$r$p$salt$hash
  hash text not null,
  changed_at timestamptz(3) not null
);

create table session (
  token_hash bytea primary key,
  user_id uuid not null references users (id),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null
);
create index session_by_user on session (user_id);
create index session_by_expiry on session (expires_at);

-- A sign-up becomes a user when its link is followed: until then nobody has the address, and there are no tokens.
-- Each link carries the password that was given with it.
create table sign_up (
  token_hash bytea primary key,
  email text not null,
  password_hash text not null,
  expires_at timestamptz(3) not null
);
create index sign_up_by_email on sign_up (email);
create index sign_up_by_expiry on sign_up (expires_at);

create table password_reset (
  token_hash bytea primary key,
  user_id uuid not null references users (id),
  expires_at timestamptz(3) not null
);
create index password_reset_by_user on password_reset (user_id);
create index password_reset_by_expiry on password_reset (expires_at);

-- Every node drops a user's sessions from its cache when one ends, or the user is suspended, resumed or erased.
create function tell_session_ended() returns trigger language plpgsql as $$
begin
  perform pg_notify('session_changed', old.user_id::text);
  return null;
end $$;
create trigger session_ended after delete on session for each row execute function tell_session_ended();

create function tell_sessions_of_user() returns trigger language plpgsql as $$
begin
  perform pg_notify('session_changed', new.id::text);
  return null;
end $$;
create trigger user_sessions_changed after update of suspended_at, erased_at on users
  for each row execute function tell_sessions_of_user();
