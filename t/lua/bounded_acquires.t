#!/usr/bin/perl

# Many acquires beside many tickets of a silent session and a heavy head: the
# queue is walked once, some tickets per call. One of more tickets than can be
# written at once is refused, and changes nothing.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $silent = $scripts->session('silent')->enter;

$one->ask('api', 1, weight => 9, limit => 10);
$silent->sync('api', limit => 10,
    ask => [ map { [ $_, 5, 0, 9999 ] } 1 .. 900 ]);
$two->ask('api', 1, weight => 5, limit => 10, queue => 9999);
$scripts->pass(3000, $one, $two);

# with a queue of no length
sub asks {
    my ($class, $first) = @_;
    my $reply;
    my $calls = $scripts->calls(sub {
        $reply = $one->sync('api', limit => 10,
            ask => [ map { [ $_, 1, $class, 0 ] } $first .. $first + 127 ]);
    });
    my %verdicts;
    $verdicts{ $_->{verdict} }++ for values %{ $reply->{asked} };
    return ($reply, $calls->{all}, \%verdicts);
}

my $syncs = 0;
my ($reply, $calls, $verdicts);
do {
    ($reply, $calls, $verdicts) = asks(0, 1000);
    is_deeply $verdicts, { refused => 128 }, 'all refused';
    cmp_ok $calls, '<', 60, 'few commands';
} while ($reply->{more} && ++$syncs < 20);
cmp_ok $syncs, '<=', 15, '64 tickets stepped over per call';

(undef, $calls, $verdicts) = asks(0, 1200);
is_deeply $verdicts, { refused => 128 }, 'none passes the heavy head';
cmp_ok $calls, '<', 15, 'silent tickets met once';
(undef, undef, $verdicts) = asks(-1, 1400);
is_deeply $verdicts, { granted => 1, refused => 127 }, 'better class passes';

# the largest sync and declaration, each ticket with a key of its own, and one
# ticket more
my @asks = map { [ $_, 1, 0, 9999, 1000, "k$_" ] } 1 .. 1000;
my $many = $scripts->session('many')->enter;
$many->{fair} = 1;
$many->ask('fair', 1001, limit => 1);
is $many->sync('fair', limit => 1, ask => \@asks)->{waiting}, 1000, 'queued';
my $before = $scripts->dump;
ok !eval { $many->sync('fair', limit => 1, release => 1,
    ask => [ [ 2000, 1, 0, 9999 ], @asks ]) }, 'one more refused';
is $scripts->dump, $before, 'nothing written';
$many->{fair} = 0;
$many->hello;
my @tickets = map { [ $_, 1, 0, 1, 1000, "k$_" ] } 1 .. 1000;
is_deeply [ map { $_ > 0 ? 1 : 0 }
    @{ $many->declare('fair', held => 1, tickets => \@tickets)->{places} } ],
    [ (1) x 1000 ], 'declared';
ok !eval { $many->declare('fair', held => 1,
    tickets => [ [ 2000, 1, 0, 1 ], @tickets ]) }, 'one more refused';
