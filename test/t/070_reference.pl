# doc/reference.md is true: every public function, view, type and setting is in
# it, and what their COMMENTs say, word for word.

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main');

open(my $fh, '<', "$ENV{WORKQ_TREE}/doc/reference.md")
  or die "could not open doc/reference.md: $!";
my $text = do { local $/; <$fh> };
close $fh;

sub folded
{
	my ($s) = @_;
	$s =~ s/\s+/ /g;
	return $s;
}

my $folded = folded($text);

# The objects of a kind, as a hash from name to comment.
sub objects
{
	my ($query) = @_;
	my %comment;

	foreach (split /\n/, $node->safe_psql('postgres', $query))
	{
		my ($name, $comment) = split /\t/, $_, 2;
		$comment{$name} = $comment;
	}
	return \%comment;
}

# Each is there under a heading of its own, with its comment.
sub documented
{
	my ($kind, $at_least, $comment) = @_;

	cmp_ok(scalar(keys %$comment), '>=', $at_least, "$kind found");
	foreach my $name (sort keys %$comment)
	{
		like($text, qr/^### \Q$name\E$/m, "$kind $name");
		isnt($comment->{$name}, '', "$kind $name has a comment");
		ok(index($folded, folded($comment->{$name})) >= 0,
			"$kind $name: the comment")
		  or diag("this should be in doc/reference.md: $comment->{$name}");
	}
}

my $ours = q{
	SELECT objid FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'workq')
		AND classid = };

documented(
	'function', 35,
	objects(qq{
	SELECT proname || E'\t' || coalesce(obj_description(oid, 'pg_proc'), '')
	FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		AND oid IN ($ours 'pg_proc'::regclass)}));

documented(
	'view', 7,
	objects(qq{
	SELECT 'workq.' || relname || E'\t' || coalesce(obj_description(oid, 'pg_class'), '')
	FROM pg_class WHERE relkind = 'v' AND oid IN ($ours 'pg_class'::regclass)}));

# Headings that stand for nothing.
my $headings = join ',', map { "('$_')" } $text =~ /^### ((?:workq[._])\w+)$/mg;
is( $node->safe_psql(
		'postgres', qq{
	SELECT name FROM (VALUES $headings) v(name)
	WHERE NOT EXISTS (SELECT FROM pg_proc WHERE proname = name AND oid IN ($ours 'pg_proc'::regclass))
		AND to_regclass(name) IS NULL AND to_regtype(name) IS NULL}),
	'',
	'nothing is described that is not there');

foreach my $type (
	split /\n/,
	$node->safe_psql(
		'postgres',
		qq{SELECT 'workq.' || relname FROM pg_class
		WHERE relkind = 'c' AND relnamespace = 'workq'::regnamespace}))
{
	like($text, qr/^### \Q$type\E$/m, "type $type");
}

# A setting of queues is in the table without "workq.", the others with it.
my @settings = split /\n/,
  $node->safe_psql('postgres',
	q{SELECT substr(name, 7) FROM pg_settings WHERE name LIKE 'workq.%'});
cmp_ok(scalar(@settings), '>=', 20, 'settings found');
foreach my $name (@settings)
{
	like($text, qr/^\| `(?:workq\.)?$name` \|/m, "setting $name");
}

# Arguments of workq_configure are settings of queues.
my %own = map { $_ => 1 } split /\n/,
  $node->safe_psql('postgres',
	q{SELECT unnest(proargnames[2:]) FROM pg_proc WHERE proname = 'workq_configure'});
foreach my $name (sort keys %own)
{
	like($text, qr/^\| `$name` \|/m, "setting $name of a queue");
}

done_testing();
