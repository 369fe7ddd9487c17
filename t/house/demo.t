#!/usr/bin/perl

# make demo: three nodes with one limit, which Prometheus scrapes. Plays the
# scenes of its environment or of its terminal, says what became of the requests,
# and leaves nothing behind.

use lib 't/lib', 't/run';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Monitoring;
use Dsem::Test;
use Fleet::Trial qw(command free_ports left on_terminal quiet
    without_terminal);

plan skip_all => 'Prometheus is not there, make test installs it'
    unless Dsem::Monitoring::there();

my $t = Dsem::Test->new;
my ($all, $chosen) = free_ports(2);
my $begin = now;
my (undef, $out) = without_terminal($all, 0.5, 'demo.pl');
my ($pid, $screen) = on_terminal($chosen, 0.5, 'demo.pl');

# without a terminal: all scenes

my $said = do { local $/; <$out> };
close $out;
my $status = $? >> 8;
my $quiet = quiet($begin);
is($status, 0, 'the limit held, all answered') or diag $said
    if $quiet || !$status;
like($said, qr/^Starting the fleet\..*\nThree nodes /, 'addresses first');
like($said, qr{^  node $_->[0] +http://127\.0\.0\.1:$_->[1]/dsem/$}m,
    "address of node $_->[0]")
    for ['a', $all], ['b', $all + 1], ['c', $all + 2];
like($said, qr{^  Prometheus  http://127\.0\.0\.1:${\($all + 11)}/alerts$}m,
    'address of Prometheus');
like($said, qr/^  Grafana     \S/m, 'one line on Grafana');
my @scenes = $said =~ /^Scene "(\w+)": \S.*\.$/mg;
is_deeply(\@scenes, [qw(burst tenant redis)], 'all scenes');
like($said, qr/^       Redis is restarted$/m, 'Redis restarted');
my @rows = $said =~ /^    \w+ +([1-9]\d*) +(\d+) +(\d+) +(\d+) +\d\.\d\d s$/mg;
is(scalar @rows, 4 * 10, 'ten rows');
my @lost;
while (my ($requests, $ok, $rejected, $other) = splice @rows, 0, 4) {
    push @lost, "$requests" if $requests != $ok + $rejected + $other;
}
is_deeply(\@lost, [], 'each request has one end');
like($said, qr/^  peak of $_ at the backend: \d+ of 10$/m, "peak of $_")
    for qw(reports shares);
# those of scenes in which Redis is not restarted, on any machine
is_deeply([grep { $_ > 10 } ($said =~ /at the backend: (\d+) of 10$/mg)[0 .. 2]],
    [], 'limit never exceeded');
unlike($said, qr/^.{81}/m, '80 columns');
eventually { !left($all) } 'nothing left';

# on a terminal: it waits for a choice

eventually { $screen->() =~ /Ctrl-C ends/ } 'scenes to choose';
is($t->client->get('http://127.0.0.1:' . ($chosen + $_) . '/dsem/health')
    ->status, 200, "node $_ is up") for 0 .. 2;
eventually { up() == 3 } 'Prometheus has three nodes', 30;
$screen->("4\n", "2\n");
eventually { $screen->() =~ /peak of shares.*Ctrl-C ends/s } 'scene played', 30;
unlike($screen->(), qr/Scene "(?!tenant)/, 'and no other');
$screen->("\cC");
eventually { waitpid($pid, 1) == $pid } 'ended by Ctrl-C';
is($? >> 8, 0, 'status');
eventually { !left($chosen) } 'nothing left behind';

# words at fault

my @command = command($chosen, 1, 'demo.pl');
like(qx(SCENE=storm $^X @command 2>&1),
    qr/^make demo: SCENE must be of burst tenant redis, not "storm"$/,
    'unknown scene named');
is($? >> 8, 2, 'nothing started');

done_testing;

###############################################################################

sub up {
    my $answer = eval { $t->client->get('http://127.0.0.1:' . ($chosen + 11)
        . '/api/v1/query?query=sum(up)%20*%20max(dsem_redis_up)') } or return 0;
    my ($value) = @{ decode_json($answer->body)->{data}{result} // [] };
    return $value ? $value->{value}[1] : 0;
}
