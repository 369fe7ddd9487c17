#!/usr/bin/perl

# Idle permits are recalled for the weight that waits, from some accounts per call
# where there are thousands.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $holders = 4000;

$one->ask('api', 1, limit => $holders + 1);
$state->set_account('api', sprintf('idle:0:%x', $_), 1, 1, 0, 1)
    for 1 .. $holders;
$state->set_shard(sprintf('idle:0:%x', $_), '1 1 5000 9999999 ff -')
    for 1 .. $holders;
$state->set_figure('api', held => $holders + 1);
$state->set_figure('api', active => $holders);

sub recalls {
    my ($name, $code) = @_;
    my $reply;
    my $calls = $scripts->calls(sub { $reply = $code->() });
    cmp_ok $calls->{all} - ($calls->{publish} // 0), '<', 12,
        "$name: few commands";
    is $calls->{hgetall} // 0, 0, "$name: accounts not read together";
    return $calls->{publish} // 0;
}

my %arg = (limit => $holders + 1, queue => 9999);
is recalls(light => sub { $one->ask('api', 2, %arg) }), 1,
    'one session recalled';
is recalls(heavy => sub { $one->ask('api', 3, %arg, weight => 20) }), 21,
    'as many as are wanted';
is recalls(check => sub {
    $one->sync('api', limit => $holders + 1, check => [ [2], [ 3, 20 ] ]) }), 21,
    'again at a check, by weight';
is $state->figure('api', 'recalled'), 43, 'recalled sessions counted';
is $state->figure('api', 'active'), $holders - 43, 'and no longer active';

# all but one have been recalled: further calls find it
my $left = 'idle:0:' . sprintf '%x', $holders;
$state->set_account('api', sprintf('idle:0:%x', $_), 1, 1, 0, $_ == $holders
    ? 1 : 2) for 1 .. $holders;
$state->set_figure('api', recalled => $holders - 1);
$state->set_figure('api', active => 1);
$one->sync_all('api', 200, limit => $holders + 1);
is $state->account('api', $left)->{reuse}, 2, 'last one found';
is $one->sync('api', limit => $holders + 1)->{more}, 0, 'nothing left';

# some found in a call: their permits may do
sub keepers {
    my ($keeps) = @_;
    $state->set_account('api', sprintf('idle:0:%x', $_), 1, 1, 0, $keeps ? 1 : 0)
        for 1 .. $holders;
    $state->set_figure('api', recalled => 0);
    $state->set_figure('api', active => $keeps ? $holders : 0);
}
keepers(1);
is $one->ask('api', 4, %arg, weight => 2000), 'queued', 'many permits wanted';
is $one->{asked}{more}, 0, 'some recalled: no other call at once';

# a pause wants all of them
$scripts->order('api', undef, 1);
keepers(1);
$one->sync_all('api', 400, limit => $holders + 1);
is $state->figure('api', 'active'), 0, 'paused: all recalled';
$scripts->order('api');

# the caller is the only one that may have idle permits
keepers(0);
is $one->sync('api', limit => $holders + 1, keep => 1)->{more}, 0,
    'its own are not looked for';
is $state->figure('api', 'active'), 1, 'it may have some';
is recalls(own => sub { $one->sync('api', limit => $holders + 1, keep => 1,
    check => [ [2] ]) }), 0, 'nor by a check';
is $one->sync('api', limit => $holders + 1, keep => 1)->{more}, 0,
    'no call after the other';

# a hundred sessions have stopped, and all accounts are read together: a check
# passes over some of them, the next ones over the others
my $stopped = 100;
$one->ask('web', 5, limit => $stopped + 1);
$state->set_account('web', sprintf('idle:0:%x', $_), 1, 1, 0, 1)
    for 1 .. $stopped;
$state->set_shard(sprintf('idle:0:%x', $_), '1 1 5000 1 ff -') for 1 .. $stopped;
$state->set_figure('web', held => $stopped + 1);
$state->set_figure('web', active => $stopped);
$arg{limit} = $stopped + 1;
is $one->ask('web', 6, %arg), 'queued', 'a ticket waits';
my ($recalled, $most) = (1, 0);
for (1 .. 5) {
    my $calls = $scripts->calls(sub {
        $one->sync('web', limit => $stopped + 1, check => [ [6] ]) });
    my $others = $state->figure('web', 'recalled') - $recalled;
    $recalled += $others;
    $most = $others if $others > $most;
    cmp_ok $calls->{all} - $calls->{publish}, '<', 12, 'few commands';
}
cmp_ok $most, '<=', 25, 'silent sessions recalled by a check';
is $recalled, $stopped, 'all after some checks';
