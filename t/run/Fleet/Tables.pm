package Fleet::Tables;

# The tables of the second act and the third as lines of text, 80 columns.
#
# Called by: fleet.pl. Knows nothing of processes.

use strict;
use warnings;

use List::Util qw(max sum0);

use Fleet::Screen;
use Fleet::Second;
use Fleet::Third;

my $FOUR = '  %-26s' . '%12s' x 4;

sub fair_intro {
    my ($act) = @_;
    return ('', 'Second act: one tenant sends ten times as much as each of '
        . 'three others.',
        sprintf('limit=%d and %d ms allow %d requests/s. The tenants send '
            . '%d/s, and three times', Fleet::Second::LIMIT,
            1000 * Fleet::Second::SERVICE, $act->capacity,
            ($act->rates)[0]),
        sprintf('%d/s: for %g s without "fair=", then for %g s with '
            . '"fair=$arg_tenant".', ($act->rates)[1],
            ($act->fair_seconds) x 2), '');
}

sub fair {
    my (@seen) = @_;
    my @tenants = @{ Fleet::Second::TENANTS() };
    my @heading = ('without "fair="', 'with "fair="');
    return (sprintf($FOUR, '', @tenants), map({
        my @of = @{ $_->{tenant} }{@tenants};
        ((sprintf '  %s, peak %d of %d', shift @heading, $_->{peak},
            Fleet::Second::LIMIT),
        four('requests', sub { $_[0]{requests} }, '%d', @of),
        four('503, rejected', sub { rejected($_[0]) }, '%.0f %%', @of),
        four('permits in use, mean', sub { $_[0]{in_use} }, '%.1f', @of),
        four('response, median', sub { at(0.5, $_[0]) }, '%.3f s', @of),
        four('response, 99th pct.', sub { at(0.99, $_[0]) }, '%.3f s', @of));
    } @seen), '');
}

sub four {
    my ($name, $of, $format, @tenants) = @_;
    return sprintf $FOUR, "  $name",
        map { sprintf $format, $of->($_) } @tenants;
}

sub rejected {
    my ($tenant) = @_;
    return 100 * ($tenant->{status}{503} // 0) / max(1, $tenant->{requests});
}

sub at {
    my ($part, $of) = @_;
    return Fleet::Screen::at($part, @{ $of->{response} });
}

sub fair_verdict {
    my ($shared, $fair) = @_;
    return map {
        my ($how, $seen) = @$_;
        sprintf 'Rejected requests of the quiet tenants, %s: %d of %d.', $how,
            Fleet::Second::rejected_of_quiet($seen),
            Fleet::Second::sent_by_quiet($seen);
    } ['without "fair="', $shared], ['with it', $fair];
}

###########################################################################

sub knee_intro {
    my ($act) = @_;
    return ('', sprintf('A backend with a hidden knee: %d requests at a time '
            . 'take %d ms each, with more', Fleet::Second::KNEE,
            1000 * Fleet::Second::KNEE_SERVICE),
        'it slows down with the square of their number. '
            . Fleet::Second::CLIENTS . ' clients, fixed limits,',
        sprintf('then "limit=auto min=%d max=%d" for %g s.',
            Fleet::Second::MIN, Fleet::Second::MAX, $act->auto_seconds), '');
}

sub knee {
    my (@seen) = @_;
    my ($auto) = grep { $_->{history} } @seen;
    my $best = max(map { $_->{history} ? () : $_->{rate} } @seen);
    my $row = '  %-26s%8s%12s%14s%16s';
    return (sprintf($row, '', 'limit', 'answered', 'at backend',
            'response, 99th'),
        map({ sprintf $row, $_->{history} ? 'limit=auto, second half'
            : "limit=$_->{limit}", $_->{limit}, sprintf('%d/s', $_->{rate}),
            sprintf('%d ms', 1000 * sum0(@{ $_->{service} })
                / max(1, scalar @{ $_->{service} })),
            sprintf('%.3f s', at(0.99, $_)) } @seen),
        '', sprintf('  limit=auto answers %d %% of the best fixed limit.',
            100 * $auto->{rate} / ($best || 1)),
        join('  ', '  Its limit:', history(@{ $auto->{history} })), '');
}

# Some of the limits in force: "2 s 14".
sub history {
    my (@history) = @_;
    my $end = @history ? $history[-1][0] : 0;
    my @wanted = (map({ $_ * $end } 0, 0.1, 0.3, 0.5, 0.7), $end);
    my $format = $end < 15 ? '%.1f s: %d' : '%.0f s: %d';
    return map {
        my $second = $_;
        my ($point) = grep { $_->[0] >= $second } @history;
        $point ? sprintf $format, @$point : ();
    } @wanted;
}

###########################################################################

sub servers_intro {
    my ($act) = @_;
    my $n = Fleet::Third::SERVERS;
    return ("Third act: $n servers that work on one request at a time, "
        . sprintf('%d ms each, behind', 1000 * Fleet::Third::SERVICE),
        sprintf('both nodes. %d clients for %g s with "limit=%d" and '
            . '"least_conn", by which each', Fleet::Third::CLIENTS,
            $act->part_seconds, $n),
        sprintf('node chooses a server, then for %g s with "limit=1/server".',
            $act->part_seconds), '');
}

sub servers {
    my (@part) = @_;
    my $row = '  %-36s%20s%20s';
    my $line = sub {
        my ($name, $of) = @_;
        return sprintf $row, $name, map { $of->($_) } @part;
    };
    return (
        sprintf($row, '', 'limit=' . Fleet::Third::SERVERS . ', least_conn',
            'limit=1/server'),
        $line->('requests', sub { $_[0]{requests} }),
        $line->('came to a server that was taken', sub { $_[0]{taken} }),
        $line->('the same, of all', sub { sprintf '%.0f %%',
            100 * $_[0]{taken} / max(1, $_[0]{requests}) }),
        $line->('most at one server at once', sub { $_[0]{peak} }),
        $line->('response, 99th pct.', sub { sprintf '%.3f s', at(0.99, $_[0])
        }), '');
}

1;
