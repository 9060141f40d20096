-- The index payment_unpaid, which it made, is now in migrations/indexes, because its table could not be written meanwhile.
select;
