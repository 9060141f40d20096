-- Lists every table with its columns, its primary key and the tables that its foreign keys need. The history of
-- migrations and functions belongs to the program, and the record of a transfer to one database.
select c.relname as name,
  (select json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum)
    from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
  (select coalesce(json_agg(k.attname order by part.nth), '[]')
    from pg_index i cross join unnest(i.indkey) with ordinality as part (attnum, nth)
    join pg_attribute k on k.attrelid = c.oid and k.attnum = part.attnum
    where i.indrelid = c.oid and i.indisprimary) as key,
  (select coalesce(json_agg(distinct f.relname), '[]')
    from pg_constraint k join pg_class f on f.oid = k.confrelid
    where k.conrelid = c.oid and k.contype = 'f' and f.oid <> c.oid) as needs
from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
  and c.relname not in ('schema_migration', 'sql_definition', 'transfer')
order by c.relname
