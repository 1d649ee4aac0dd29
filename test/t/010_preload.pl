# A server without workq in shared_preload_libraries: the library loads
# quietly (pg_upgrade --check does that), the extension can be created, and
# every function says what to put into postgresql.conf (pitfall C2).

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('plain', { preload => 0, extension => 0 });

is($node->psql('postgres', q{LOAD 'workq'}), 0, 'LOAD works');
is($node->psql('postgres', 'CREATE EXTENSION workq'),
	0, 'CREATE EXTENSION works');

# Calls of all C functions, with some value for each argument.
my $calls = $node->safe_psql(
	'postgres', q{
	SELECT pg_catalog.format('%s %s(%s)',
			CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END,
			p.oid::regproc,
			(SELECT string_agg(quote_literal(CASE
						WHEN t.oid::regtype::text LIKE '%[]' THEN '{}'
						WHEN t.oid = 'jsonb'::regtype THEN '{}'
						WHEN t.oid = 'interval'::regtype THEN '1 s'
						WHEN t.oid = 'uuid'::regtype THEN '00000000-0000-0000-0000-000000000000'
						WHEN t.typcategory = 'N' THEN '1'
						WHEN t.typcategory = 'B' THEN 'true'
						WHEN t.typcategory = 'D' THEN '2030-01-01'
						ELSE 'x' END) || '::' || t.oid::regtype, ', ' ORDER BY n)
				FROM unnest(p.proargtypes) WITH ORDINALITY a(type, n)
				JOIN pg_type t ON t.oid = a.type))
	FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
	WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'workq')
		AND d.refclassid = 'pg_extension'::regclass
		AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
		AND p.prolang = (SELECT oid FROM pg_language WHERE lanname = 'c')
		AND p.prorettype <> 'trigger'::regtype
		AND p.oid::regproc::text <> 'workq.clock'	-- the views' clock
	ORDER BY p.oid::regproc::text});
cmp_ok(scalar(split(/\n/, $calls)), '>', 20, 'functions found');
sql_fails($node, '55000', $_) foreach split /\n/, $calls;

my ($rc, $out, $err) =
  $node->psql('postgres', q{SELECT workq_enqueue('q', '{}')});
like($err, qr/HINT:.*shared_preload_libraries = 'workq'.*restart/,
	'the hint says what to do');
is( $node->safe_psql(
		'postgres', q{SELECT count(*) FROM pg_stat_activity
		WHERE backend_type LIKE 'workq%'}),
	'0',
	'no background process');
is($node->psql('postgres', 'DROP EXTENSION workq'), 0, 'DROP EXTENSION works');

# Preloaded after that, it works: nothing of the above is left behind.
$node->safe_psql('postgres', 'CREATE EXTENSION workq');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'workq'");
$node->restart;
is($node->psql('postgres', q{SELECT workq_enqueue('q', '{}')}),
	0, 'works once preloaded');

done_testing();
