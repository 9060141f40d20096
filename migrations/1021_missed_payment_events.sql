-- How far a provider's list of events has been read, for events that its webhook did not deliver. All times are real time.
create table payment_event_reading (
  provider text primary key check (provider in ('operator', 'sandbox', 'stripe')),
  -- every event created before it was read
  read_from timestamptz(3) not null,
  -- the end of the window that is being read, newest event first; null: the next one has not begun
  read_to timestamptz(3),
  -- the event at which the reading of the window continues
  after_event text,
  -- the oldest event of the window that failed: the next window begins with it
  retry_from timestamptz(3),
  -- readings in a row that failed, for the backoff
  failures integer not null default 0,
  -- also the lease of the node that reads
  next_read_at timestamptz not null,
  check (read_to is not null or (after_event is null and retry_from is null))
);
