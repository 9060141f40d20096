-- The current time of a service with PURSER_TEST_CLOCK: one row, so that every node has the same time.
create table test_clock (
  id integer primary key default 1 check (id = 1),
  now timestamptz(3) not null
);
