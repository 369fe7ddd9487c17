#!/usr/bin/perl

# The checker of the soak finds what it is there for: forged logs, right ones
# and each with one thing wrong.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Cpanel::JSON::XS ();
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use POSIX qw(strftime);

use Soak::Check;
use Soak::Logs;
use Soak::Schedule;

my $json = Cpanel::JSON::XS->new->canonical;
my $dir = tempdir(CLEANUP => 1);

# s; clients, backend and faults have the same clock, nginx another
my ($BEGIN, $WALL) = (1000, 1_700_000_000);

# Semaphores that are reached, nothing wrong: "auto" with limits found from 2 to
# 3, "fair" with two keys that always wait and one that needs little.
sub right {
    my %log = (
        conf => { phase => 'single', lease => 3, factor => 1, nodes => 1,
            workers => 2, wall => $WALL, begin => $BEGIN, rate => 1,
            metronome => 'metronome', semaphores => {
                one => { limit => 1, queue => 2, timeout => 2 },
                local => { limit => 2, queue => 2, timeout => 2 },
                auto => { limit => 4, min => 2, queue => 2, timeout => 2 },
                fair => { limit => 3, queue => 2, timeout => 2, keys => {
                    bulk => { share => 1 }, gold => { share => 2 },
                    little => { share => 1, within => 1 },
                } },
                pool => { limit => 1, servers => [ 8001, 8002 ], queue => 2,
                    timeout => 2 },
            } },
        faults => [], error => ["[notice] 7#7: start"],
        quiet => [ map { { left => [], flying => 0, backend => 0, keys => [],
            complete => 1, workers => [{ kb => 5000, files => 20 }],
            masters => [{ kb => 3000, files => 10 }] } } 1 .. 4 ],
        end => { left => [], slow => [], killed => [] },
    );
    request(\%log, "one-$_", sem => 'one', from => $_, to => $_ + 0.5)
        for 0 .. 19;
    request(\%log, "local-$_", sem => 'local', from => $_, to => $_ + 1.5)
        for 0 .. 19;
    request(\%log, "auto-$_", sem => 'auto', from => $_ / 2, to => $_ / 2 + 0.9,
        told => 2) for 0 .. 39;
    for my $port (8001, 8002) {
        request(\%log, "pool-$port-$_", sem => 'pool', from => $_,
            to => $_ + 0.8, port => $port) for 0 .. 19;
    }
    # of three permits, two for the key with two shares
    for my $i (0 .. 119) {
        request(\%log, "bulk-$i", sem => 'fair', key => 'bulk',
            from => $i / 4, to => $i / 4 + 0.2);
        request(\%log, "gold-$i-$_", sem => 'fair', key => 'gold',
            from => $i / 4, to => $i / 4 + 0.2) for 1 .. 2;
    }
    request(\%log, 'little', sem => 'fair', key => 'little', from => 20.21,
        to => 20.24);
    return \%log;
}

# A request: at the backend from..to, unless start is undef. More of it: status
# sent (before from), end (of the client), dsem, wait, pid, node, nginx (its
# status), got (s), key, told (the limit), port (of a pool's server).
sub request {
    my ($log, $nonce, %of) = @_;
    $log->{request}{$nonce} = { status => 200, dsem => 'PASSED', wait => 0,
        weight => 1, sent => $of{from}, node => 'n1', pid => 7, how => 'answered',
        starts => 1, kind => 'keep', reused => 0, echo => 1, lines => 1,
        key => '-', told => 1, %of };
}

sub write_file {
    my ($name, @lines) = @_;
    open my $fh, '>', "$dir/$name" or die "$name: $!";
    print $fh map { "$_\n" } @lines;
    close $fh;
}

# A beat each 0.1 s, none while the machine stood still.
sub write_metronome {
    my ($stood) = @_;
    my ($last, $stalled) = (0, 0);
    open my $fh, '>:raw', "$dir/metronome" or die "metronome: $!";
    for my $at (map { $_ / 10 } 1 .. 400) {
        next if grep { $at >= $_->[0] && $at < $_->[1] } @$stood;
        my $late = $at - $last > 0.15 ? $at - $last : 0;
        $stalled += $late;
        $last = $at;
        print $fh pack 'd3', $BEGIN + $at, $stalled, $late;
    }
    close $fh;
}

sub violated {
    my ($log) = @_;
    make_path("$dir/n1");
    my (@clients, @backend, @verdicts);
    for my $nonce (sort keys %{ $log->{request} }) {
        my $r = $log->{request}{$nonce};
        my ($sent, $from, $to) = map { $BEGIN + $_ } @$r{qw(sent from to)};
        push @clients, sprintf '%s %s %s %s %d %.6f %.6f %s %d %d %s', $nonce,
            @$r{qw(kind node sem weight)}, $sent, $r->{end} ? $BEGIN + $r->{end}
            : $to, @$r{qw(status reused echo key)};
        push @verdicts, (sprintf '%.3f %s %s %s %.3f - %d %.3f', $WALL + $to,
            $nonce, $r->{nginx} // $r->{status}, @$r{qw(dsem wait pid)},
            $to - $sent) x $r->{lines};
        my $sem = join '@', $r->{sem}, $r->{port} // ();
        push @backend, ([$from, 1, "+ $from $nonce $sem $r->{weight} "
            . "$r->{pid} $r->{node} $r->{told}"]) x $r->{starts};
        push @backend, ([$to, 0, "- $to $nonce $r->{how}"]) x $r->{starts};
    }
    write_metronome($log->{stood} // []);
    write_file('conf.json', $json->encode($log->{conf}));
    write_file('clients.log', @clients);
    write_file('n1/verdicts.log', @verdicts);
    make_path("$dir/redis1");
    write_file('redis1/log', map { strftime('7:M %d %b %Y %H:%M:%S.500 * '
        . 'MASTER MODE enabled', localtime $WALL + $BEGIN + $_) }
        @{ $log->{promotions} // [] });
    write_file('backend.log', map { $_->[2] } sort { $a->[0] <=> $b->[0]
        || $a->[1] <=> $b->[1] } @backend);
    write_file('faults.log', map { $json->encode($_) } @{ $log->{faults} });
    write_file('n1/error.log', @{ $log->{error} });
    my $n = keys %{ $log->{request} };
    write_file('state.log', map { $json->encode({ t => $BEGIN + 30, %$_ }) }
        map({ { what => 'quiet', %$_ } } @{ $log->{quiet} }),
        $log->{end} ? { what => 'end', count => $n, %{ $log->{end} } } : ());
    my $found = Soak::Check->new(Soak::Logs->new($dir))->run;
    return join ' ', grep { @{ $found->{$_} } } sort keys %$found;
}

# A fault as it is carried out, without an end if it has none.
sub fault {
    my ($log, $kind, $from, $to, %of) = @_;
    my %fault = (id => 1 + @{ $log->{faults} }, kind => $kind, %of);
    push @{ $log->{faults} }, { %fault, step => 'begin',
        began => $BEGIN + $from, t => $BEGIN + $from + 0.01 };
    push @{ $log->{faults} }, { %fault, step => 'end', began => $BEGIN + $to,
        t => $BEGIN + $to + 0.01 } if defined $to;
}

sub finds {
    my ($expected, $name, $forge) = @_;
    my $log = right();
    $forge->($log);
    is violated($log), $expected, $name;
}

finds('', 'right logs', sub { });

# the limit

finds('limit', 'one too many', sub {
    request($_[0], 'x', sem => 'one', from => 5.2, to => 5.3);
});
finds('', 'one too many beside two masters', sub {
    $_[0]{promotions} = [4];
    request($_[0], 'x', sem => 'one', from => 5.2, to => 5.3);
});
finds('limit', 'one too many at a server of a pool', sub {
    request($_[0], 'x', sem => 'pool', from => 5.2, to => 5.3, port => 8001);
});
finds('', 'as many as the limit at another one', sub {
    request($_[0], 'x', sem => 'pool', from => 5.2, to => 5.3, port => 8003);
});
finds('limit', 'two too many beside two masters', sub {
    $_[0]{promotions} = [4];
    request($_[0], "x$_", sem => 'one', from => 5.2, to => 5.3) for 1 .. 2;
});
finds('limit', 'one too many after a failover', sub {
    $_[0]{promotions} = [4];
    fault($_[0], 'failover', 3, 4);
    request($_[0], 'x', sem => 'one', from => 5.2, to => 5.3);
});
finds('', 'one too many after a second promotion', sub {
    $_[0]{promotions} = [4, 3.5];
    fault($_[0], 'failover', 3, 4);
    request($_[0], 'x', sem => 'one', from => 5.2, to => 5.3);
});
sub aborted {
    my ($log, $after) = @_;
    request($log, 'x', sem => 'one', sent => 5.1, from => 5.2, to => 5.201,
        end => 5.2 - $after, how => 'closed', status => 'aborted');
}
finds('', 'one too many after its client has aborted it',
    sub { aborted($_[0], 0.01) });
finds('limit', 'one too many before', sub { aborted($_[0], -0.01) });
finds('limit', 'too heavy', sub { $_[0]{request}{'local-9'}{weight} = 2 });
finds('', 'the same, worker without Redis for too long', sub {
    fault($_[0], 'link_lost', 1, 5.5, node => 1);
    $_[0]{request}{'one-1'}{to} = 5.4;
    delete $_[0]{request}{$_} for map { "one-$_" } 2 .. 5;
    request($_[0], 'x', sem => 'one', from => 4.8, to => 4.9, node => 'n2',
        pid => 8);
});
finds('limit', 'all workers without Redis', sub {
    fault($_[0], 'master_kill', 1, 5.5);
    $_[0]{request}{'one-1'}{to} = 5.4;
    delete $_[0]{request}{$_} for map { "one-$_" } 2 .. 5;
    request($_[0], 'x', sem => 'one', from => 4.8, to => 4.9, node => 'n2',
        pid => 8);
});
finds('limit', 'without Redis for a short time', sub {
    fault($_[0], 'link_freeze', 1, 1.5, node => 1);
    $_[0]{request}{'one-1'}{to} = 5.4;
    delete $_[0]{request}{$_} for map { "one-$_" } 2 .. 5;
    request($_[0], 'x', sem => 'one', from => 4.8, to => 4.9, node => 'n2',
        pid => 8);
});
finds('', 'the share of local while Redis is away', sub {
    fault($_[0], 'redis_down', 4, 5);
    request($_[0], 'x', sem => 'local', from => 5.2, to => 5.3,
        dsem => 'DEGRADED');
});
finds('limit', 'more than the share of local', sub {
    fault($_[0], 'redis_down', 4, 5);
    request($_[0], "x$_", sem => 'local', from => 5.2, to => 5.3,
        dsem => 'DEGRADED') for 1 .. 3;
});
finds('limit', 'a lowered limit', sub {
    fault($_[0], 'limit', 2, 10, sem => 'local', limit => 1);
});
finds('', 'a raised limit', sub {
    fault($_[0], 'limit', 2, 10, sem => 'local', limit => 3);
    request($_[0], 'x', sem => 'local', from => 5.2, to => 5.3);
});
finds('limit', 'a pause', sub {
    fault($_[0], 'pause', 2, 10, sem => 'one');
});
sub not_reached {
    my ($log, @stood) = @_;
    $log->{stood} = \@stood;
    $_->{to} = $_->{from} + 0.5
        for grep { $_->{sem} eq 'local' } values %{ $log->{request} };
}
finds('reached', 'limit not reached', sub { not_reached($_[0]) });
finds('reached', 'limit of a server not reached', sub {
    my $requests = $_[0]{request};
    delete @$requests{ grep { /^pool-8002/ } keys %$requests };
});
finds('', 'on a machine that mostly stood still',
    sub { not_reached($_[0], [10, 28]) });
finds('reached', 'for less than half of the time',
    sub { not_reached($_[0], [10, 22]) });

# limit=auto

sub auto {
    my ($log, $nonce, $from, $told, %of) = @_;
    request($log, $nonce, sem => 'auto', from => $from, to => $from + 0.1,
        told => $told, %of);
}
finds('limit', 'one beyond the limit found', sub { auto($_[0], 'x', 5.2, 2) });
finds('', 'one more after the limit was raised', sub {
    auto($_[0], 'x', 5.2, 3);
});
finds('', 'one let in before the limit was raised, late', sub {
    auto($_[0], 'x', 5.2, 3);
    auto($_[0], 'y', 5.21, 2);
    $_[0]{request}{'auto-10'}{to} = 5.205;
});
finds('limit', 'one more after the limit was lowered again', sub {
    auto($_[0], 'x', 5.2, 3, to => 5.22);
    auto($_[0], 'y', 5.53, 2);
});
finds('', 'the same while workers reconnect', sub {
    fault($_[0], 'client_kill', 5, undef, sem => 'one');
    auto($_[0], 'x', 5.2, 3, to => 5.22);
    auto($_[0], 'y', 5.53, 2);
});
sub lowered {
    my ($log, @fault) = @_;
    fault($log, @fault);
    auto($log, 'x', 5.2, 3, to => 5.22);
    auto($log, 'y', 7.53, 2);
}
finds('', "a worker's own permits while Redis is away",
    sub { lowered($_[0], 'master_freeze', 5.3, 9) });
finds('limit', 'while workers reconnect',
    sub { lowered($_[0], 'client_kill', 7, undef, sem => 'one') });
finds('', 'requests of before drain', sub {
    auto($_[0], 'x', 5.2, 3, to => 8);
    $_[0]{request}{'auto-12'}{told} = 2;
});
finds('bounds limit', 'a limit above the upper bound', sub {
    auto($_[0], "x$_", 5.2, 5) for 1 .. 3;
});
finds('bounds', 'a limit below the lower bound', sub {
    delete $_[0]{request}{'auto-11'};
    $_[0]{request}{'auto-12'}{told} = 1;
});
finds('', 'the permits of a worker while Redis is away', sub {
    fault($_[0], 'redis_down', 4, 7);
    delete $_[0]{request}{'auto-11'};
    $_[0]{request}{'auto-12'}{told} = 1;
});
finds('', 'an order above the upper bound', sub {
    fault($_[0], 'limit', 5, 7, sem => 'auto', limit => 5);
    auto($_[0], "x$_", 5.2, 5) for 1 .. 3;
});
finds('limit', 'an order below the limit found', sub {
    fault($_[0], 'limit', 3, 7, sem => 'auto', limit => 1);
});
finds('bounds', 'not the limit of the order', sub {
    fault($_[0], 'limit', 5, 7, sem => 'auto', limit => 6);
    auto($_[0], 'x', 5.2, 5);
});
finds('reached', 'the limit found not reached', sub {
    $_->{told} = 3 for grep { $_->{sem} eq 'auto' }
        values %{ $_[0]{request} };
});

# requests

finds('answered refused', 'an error', sub { $_[0]{request}{'one-3'}{status} = 500 });
finds('answered', 'a connection lost', sub {
    $_[0]{request}{'one-3'}{status} = 'reset';
});
finds('', 'a connection to a killed worker', sub {
    fault($_[0], 'kill_worker', 3, undef, node => 1, worker => 0);
    $_[0]{request}{'one-3'}{status} = 'reset';
});
finds('answered', 'a connection to another node', sub {
    fault($_[0], 'kill_worker', 3, undef, node => 2, worker => 0);
    $_[0]{request}{'one-3'}{status} = 'reset';
});
finds('answered', 'the response of another', sub {
    $_[0]{request}{'one-3'}{echo} = 0;
});
finds('answered', 'two verdicts', sub { $_[0]{request}{'one-3'}{lines} = 2 });
finds('refused', 'no verdict', sub { $_[0]{request}{'one-3'}{lines} = 0 });
sub unlogged {
    my ($log, $killed) = @_;
    fault($log, 'kill_worker', $killed, undef, node => 1, worker => 0);
    $log->{request}{'one-3'}{lines} = 0;
}
finds('', 'its worker was killed before it logged',
    sub { unlogged($_[0], 4.2) });
finds('refused', 'its worker was killed long after',
    sub { unlogged($_[0], 5.2) });
finds('served', 'never at the backend', sub {
    $_[0]{request}{'one-3'}{starts} = 0;
});
finds('limit served', 'twice at the backend', sub {
    $_[0]{request}{'one-3'}{starts} = 2;
});
finds('served', 'refused, but served', sub {
    @{ $_[0]{request}{'one-3'} }{qw(status dsem wait)} = (503, 'TIMEOUT', 2);
});

sub refused {
    my ($log, $dsem, $wait) = @_;
    request($log, 'x', sem => 'one', from => 3, to => 3 + $wait, starts => 0,
        status => 503, dsem => $dsem, wait => $wait);
}
finds('refused', 'refused without a reason', sub { refused($_[0], '', 0) });
finds('refused', 'refused beside a free place', sub {
    refused($_[0], 'REJECTED', 0);
});
finds('refused', 'an error without trouble', sub {
    refused($_[0], 'ERROR', 0);
});
finds('', 'an error while Redis is away', sub {
    fault($_[0], 'redis_freeze', 3, 4);
    refused($_[0], 'ERROR', 0);
});
finds('', 'an error before a promotion that no fault asked for', sub {
    $_[0]{promotions} = [5];
    refused($_[0], 'ERROR', 0);
});
finds('refused', 'an error long before', sub {
    $_[0]{promotions} = [9];
    refused($_[0], 'ERROR', 0);
});
finds('refused', 'an early timeout', sub { refused($_[0], 'TIMEOUT', 1) });
finds('in_time', 'a late timeout', sub { refused($_[0], 'TIMEOUT', 6) });
sub stood {
    my ($log, $from, $to, $dsem, $wait) = @_;
    $log->{stood} = [[$from, $to]];
    refused($log, $dsem, $wait);
}
finds('', 'the machine stood still', sub { stood($_[0], 4, 6, 'TIMEOUT', 6) });
finds('in_time', 'for too short', sub { stood($_[0], 4, 4.5, 'TIMEOUT', 6) });
finds('', 'an error as the machine stood still',
    sub { stood($_[0], 2, 2.8, 'ERROR', 0) });
finds('refused', 'an error after a short stall',
    sub { stood($_[0], 2, 2.3, 'ERROR', 0) });
finds('refused', 'an error before one', sub { stood($_[0], 5, 6, 'ERROR', 0) });

# the queue

sub queued {
    my ($log, $nonce, $from, $sent, %of) = @_;
    request($log, $nonce, sem => 'one', from => $from, to => $from + 0.1,
        sent => $sent, wait => $from - $sent, dsem => 'QUEUED', %of);
}
finds('order', 'overtaken in a worker', sub {
    queued($_[0], 'x', 30, 29.7);
    queued($_[0], 'y', 30.2, 29.5);
});
finds('order', 'overtaken by another worker', sub {
    queued($_[0], 'w', 28.8, 28.8, to => 30);
    queued($_[0], 'x', 30, 29.9);
    queued($_[0], 'y', 30.2, 28.8, pid => 8);
});
finds('', 'overtaken while workers reconnect', sub {
    fault($_[0], 'client_kill', 29, undef, sem => 'one');
    queued($_[0], 'x', 30, 29.7);
    queued($_[0], 'y', 30.2, 29.5);
});
finds('conserving', 'waits beside a free permit', sub {
    queued($_[0], 'y', 31, 29.2);
});
finds('', 'the same on a busy machine', sub {
    queued($_[0], 'y', 31, 29.2);
    request($_[0], 'x', sem => 'local', from => 29.5, to => 30, end => 30.3);
});
finds('', 'the same with a backend that stands still', sub {
    queued($_[0], 'y', 31.2, 29.4);
    $_[0]{conf}{semaphores}{any} = { limit => 12, queue => 1, timeout => 1 };
    request($_[0], "x$_", sem => 'any', from => 30.1, to => 31) for 1 .. 12;
});
finds('conserving', 'the same with a slow client', sub {
    queued($_[0], 'y', 31, 29.2);
    request($_[0], 'x', sem => 'local', from => 29.5, to => 30, end => 30.3,
        kind => 'slow');
});
finds('conserving', 'waits beside a free permit, with a key', sub {
    queued($_[0], 'y', 32, 30.5, sem => 'fair', key => 'bulk');
});
finds('conserving', 'waits beside a free permit of those found', sub {
    queued($_[0], 'y', 22, 20.5, sem => 'auto', told => 2);
});
finds('', 'waits beside too few for the limit found', sub {
    queued($_[0], 'x', 20.6, 20.6, sem => 'auto', told => 2, to => 22);
    queued($_[0], 'y', 22, 20.5, sem => 'auto', told => 1);
    $_[0]{conf}{semaphores}{auto}{min} = 1;
});

# keys

finds('order', 'overtaken by one of the same key', sub {
    queued($_[0], 'x', 30, 29.7, sem => 'fair', key => 'bulk');
    queued($_[0], 'y', 30.2, 29.5, sem => 'fair', key => 'bulk');
});
sub overtaken {
    my ($log, $every) = @_;
    $log->{conf}{semaphores}{fair}{limit} = 1;
    delete $log->{request}{$_} for grep { /^(?:bulk|gold|little)/ }
        keys %{ $log->{request} };
    for my $i (0 .. 59) {
        my $late = $i % $every == 0;
        my $at = 30 + 2 * $i;
        request($log, "z$i", sem => 'fair', key => 'any', from => $at - 1.65,
            to => $at - 0.01);
        queued($log, "x$i", $at, $at - ($late ? 0.1 : 0.3), sem => 'fair',
            key => 'bulk', pid => 7);
        queued($log, "y$i", $at + 0.2, $at + 0.2 - ($late ? 1.5 : 0.3),
            sem => 'fair', key => 'bulk', pid => 8);
    }
}
finds('', 'some overtaken by those of another worker', sub {
    overtaken($_[0], 10);
});
finds('order', 'many overtaken by those of another worker', sub {
    overtaken($_[0], 1);
});
finds('', 'overtaken by one of another key', sub {
    queued($_[0], 'x', 30, 29.7, sem => 'fair', key => 'gold');
    queued($_[0], 'y', 30.2, 29.5, sem => 'fair', key => 'bulk');
});

sub little {
    my ($log, $dsem, $wait, %of) = @_;
    my $from = $of{from} // 10.21;
    request($log, 'x', sem => 'fair', key => 'little', sent => $from - $wait,
        from => $from, to => $from + 0.02, dsem => $dsem, wait => $wait, %of);
}
my @REFUSED = (status => 503, starts => 0);
finds('', 'a key within its share waits', sub { little($_[0], 'QUEUED', 0.3) });
sub drained {
    my ($log, $began) = @_;
    $log->{quiet}[0]{began} = $BEGIN + $began;
    delete @{ $log->{request} }{ grep { /^gold-(\d+)/ && $1 >= 40 }
        keys %{ $log->{request} } };
}
finds('', 'a key alone as the load ends', sub { drained($_[0], 10) });
finds('shared', 'while it goes on', sub { drained($_[0], 29) });
finds('shared', 'for long', sub { little($_[0], 'QUEUED', 1.3) });
finds('', 'where requests take three times as long', sub {
    $_[0]{conf}{rate} = 0.3;
    little($_[0], 'QUEUED', 1.8);
});
finds('shared', 'for long there', sub {
    $_[0]{conf}{rate} = 0.3;
    little($_[0], 'QUEUED', 2.2);
});
finds('shared', 'is rejected', sub {
    little($_[0], 'REJECTED', 0, @REFUSED, from => 10.1);
});
finds('', 'while keys are random', sub {
    fault($_[0], 'random_keys', 9, 10);
    little($_[0], 'REJECTED', 0, @REFUSED, from => 10.1);
});
finds('', 'as the load begins', sub {
    little($_[0], 'REJECTED', 0, @REFUSED, from => 1.1);
});
finds('', 'a busy key is rejected', sub {
    little($_[0], 'REJECTED', 0, @REFUSED, from => 10.1, key => 'bulk');
});
finds('shared', 'a key has more permits than its share', sub {
    $_->{key} = $_->{key} eq 'gold' ? 'bulk' : 'gold' for grep {
        $_->{key} =~ /bulk|gold/ } values %{ $_[0]{request} };
});

# what is left

finds('left', 'a permit left', sub {
    $_[0]{quiet}[0]{left} = ['one: n1:0:1: 1 held, 0 waiting'];
});
sub key_left {
    my ($log, @promotions) = @_;
    $log->{promotions} = \@promotions;
    $log->{quiet}[0]{keys} = ['any:s:one'];
}
finds('left', 'a key left', sub { key_left($_[0]) });
finds('', 'a key left on a new master', sub { key_left($_[0], 28) });
finds('left', 'the same, asked for since', sub { key_left($_[0], 26) });
finds('left', 'keys left while they are random', sub {
    fault($_[0], 'random_keys', 3, 5, tags => 1300);
});
finds('', 'keys left that are remembered', sub {
    fault($_[0], 'random_keys', 3, 5, tags => 1040);
});
finds('left', 'a session missing', sub { $_[0]{quiet}[1]{complete} = 0 });
finds('left', 'a node that does not quit', sub {
    $_[0]{end}{slow} = ['n1 is still there'];
});
finds('left', 'a log that is cut off', sub { delete $_[0]{end} });
finds('flat', 'memory grows', sub {
    $_[0]{quiet}[3]{workers}[0]{kb} = 50_000;
});
finds('flat', 'descriptors grow', sub {
    $_[0]{quiet}[3]{workers}[0]{files} = 100;
});
sub differs {
    my ($log, $at) = @_;
    push @{ $log->{error} }, strftime('%Y/%m/%d %H:%M:%S', localtime
        $WALL + $BEGIN + $at)
        . ' [info] 7#7: dsem: resynchronizing with redis (counts differ)';
}
finds('agree', 'other counts in Redis', sub { differs($_[0], 10) });
finds('', 'other counts after lost messages', sub {
    fault($_[0], 'link_swallow', 8, 9, node => 1);
    differs($_[0], 10);
});
finds('logs', 'a worker died', sub {
    push @{ $_[0]{error} },
        '[alert] 6#6: worker process 7 exited on signal 11';
});
finds('', 'a worker was killed', sub {
    push @{ $_[0]{error} },
        '[alert] 6#6: worker process 7 exited on signal 9';
    $_[0]{end}{killed} = [7];
});
sub left_open {
    my ($log, $number) = @_;
    push @{ $log->{error} }, strftime('%Y/%m/%d %H:%M:%S', localtime
        $WALL + $BEGIN + 9)
        . " [alert] 7#7: *$number open socket #34 left in connection 12";
}
finds('logs', 'a socket left open', sub { left_open($_[0], 7) });
finds('', 'the same, told to stop while exiting', sub {
    fault($_[0], 'stop_node', 9, 10, node => 1);
    left_open($_[0], 7);
});
finds('logs', 'the same, of a connection to Redis', sub {
    fault($_[0], 'stop_node', 9, 10, node => 1);
    left_open($_[0], 0);
});
finds('carried_out', 'a fault that failed', sub {
    fault($_[0], 'reload', 3, undef, node => 1, failed => 'timed out');
});

# the schedule

sub schedule { return map { Soak::Schedule::line($_) }
    Soak::Schedule::list(@_) }

my @all = schedule(1, 1800);
is_deeply [schedule(1, 1800)], \@all, 'schedule: the same for a seed';
isnt join('', schedule(2, 1800)), join('', @all), 'schedule: another seed';
cmp_ok scalar(grep { !/quiet/ } @all), '>=', 500, 'schedule: 500 faults';
for my $phase (@Soak::Schedule::PHASES) {
    my %kind = map { /$phase\s+(\w+)/ ? ($1 => 1) : () } @all;
    is_deeply [ grep { !$kind{$_} } Soak::Schedule::kinds($phase) ], [],
        "schedule: every kind in $phase";
}

done_testing();
