# Run TAP tests and count single tests, which prove(1) prints only in prose.
#
# usage: harness.pl NUMBERS-FILE perl -- TEST...
#        harness.pl NUMBERS-FILE pgtap PSQL DATABASE -- TEST...
#
# Writes "PASSED FAILED" to the file.  A test file that dies, plans wrongly or
# runs nothing counts as one failure if none of its tests failed.  TODO tests
# that fail count as passed, as the protocol says.

use strict;
use warnings;
use TAP::Harness;

my $numbers = shift;
my $kind = shift;
my @args;
while (@ARGV)
{
	my $arg = shift;
	last if $arg eq '--';
	push @args, $arg;
}

my %options = (
	verbosity => $ENV{WORKQ_VERBOSE} ? 1 : 0,
	timer => 1,
	failures => 1,
	merge => 0);

if ($kind eq 'pgtap')
{
	require TAP::Parser::SourceHandler::pgTAP;
	$options{sources} = {
		pgTAP => {
			psql => $args[0],
			dbname => $args[1],
			suffix => '.sql'
		}
	};
}

my $harness = TAP::Harness->new(\%options);
my $result = $harness->runtests(@ARGV);

my ($passed, $failed) = (0, 0);
foreach my $file ($result->descriptions)
{
	my ($parser) = $result->parsers($file);
	my $bad = scalar($parser->failed);
	my $good = scalar($parser->passed);

	$bad ||= 1
	  if $parser->exit
	  || $parser->wait
	  || $parser->parse_errors
	  || (!$good && !$parser->skip_all);
	$passed += $good;
	$failed += $bad;
	if ($bad)
	{
		my ($base) = $file =~ m{([^/]+)\.[^./]+$};
		print "FAILED-FILE $base\n";
	}
}

open my $fh, '>', $numbers or die "could not write $numbers: $!";
print $fh "$passed $failed\n";
close $fh or die "could not write $numbers: $!";
exit($failed || !$passed ? 1 : 0);
