#!/usr/bin/perl

# Requests that take several permits each: permits are counted, not requests,
# where it matters whether the limit is used. Builds that know no weights may add
# samples to the same turn.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a', { api => '10=5-1000',
    few => '10=5-1000', high => '100=5-1000', idle => '100=5-1000' });

# nine of ten permits in use
my $auto = Dsem::Auto->new($scripts, 'high', [ $one ], min => 5, weight => 5,
    used => 0.18);
ok $auto->until(sub { $_[0]{found} < 100 }, 20), 'used: a lower limit is tried';

# four of ten
my $reply = Dsem::Auto->new($scripts, 'idle', [ $one ], min => 5, weight => 5,
    used => 0.08)->run(20);
is "@$reply{qw/found reason/}", '100 unused', 'four of ten permits: not used';

# all of them, by two requests: limits below the first one are tried
$auto = Dsem::Auto->new($scripts, 'few', [ $one ], min => 5, weight => 5,
    used => 0.2, peak => sub { $_[0] });
ok $auto->until(sub { $_[0]{found} < 10 }, 20), 'a limit below the first one';

# a turn: with requests of one permit nothing is kept
my %sample = (count => 1, sum => 1e5, window => 100, min => 5);
sample(count => 0, sum => 0);
sample();
is field(), undef, 'weight 1: no field';
sample(weight => 3000);
my $opened = $state->rule('api')->{opened};
is field(), "$opened 400000", 'weight 3';

# a build that knows no weights adds to the sum, and begins another turn
$state->set_rule('api', sum => 7e5);
sample(weight => 2000);
is field(), "$opened 900000", 'not less than the sum';
$state->set_rule('api', opened => $opened + 1, sum => 5e5);
sample(weight => 2000);
is field(), $opened + 1 . ' 700000', 'of another turn: nothing';

$scripts->done;

sub field {
    return $scripts->redis->cmd('HGET', $state->auto_key('api'), 'permits');
}

sub sample {
    $scripts->advance(100);
    return $one->adjust('api', %sample, @_);
}
