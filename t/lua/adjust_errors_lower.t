#!/usr/bin/perl

# Requests fail at a lower limit that is tried: they were sent at the limit found,
# and have hung until their timeout. That one is judged; in an outage none that
# is higher.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a',
    { api => '10=1-1000', web => '10=1-1000' });

# a lower limit is tried; the reply
sub lower {
    my ($name) = @_;
    my $auto = Dsem::Auto->new($scripts, $name, [ $one ], peak => sub { $_[0] },
        latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
    $auto->run(25);
    my $reply = $auto->until(sub { $_[0]{found} < $_[0]{kept} }, 60);
    ok $reply, "$name: a lower one: tried";
    return $auto, $reply;
}

my ($auto, $reply) = lower('api');
$auto->set(errors => sub { $_[0] < $reply->{kept} ? 0.3 : 0 });
ok $auto->until(sub { $_[0]{found} == $reply->{kept} }, 2), 'the one found: judged';
is $auto->{reply}{reason}, 'errors', 'because of errors';
ok !$auto->until(sub { $_[0]{kept} < $reply->{kept} }, 20), 'and it stays';

($auto, $reply) = lower('web');
my $from = () = $auto->trace;
$auto->set(errors => sub { 1 })->run(30);
my ($most) = sort { $b <=> $a } ($auto->trace)[$from .. $auto->trace - 1];
is $most, $reply->{found}, 'an outage: nothing higher';
