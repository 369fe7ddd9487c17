package Bench::Report;

# The output of make bench: tables of 80 columns, then targets and results. All
# figures are medians; a ratio is the median of the rounds' ratios.
#
# Called by: bench.pl.

use strict;
use warnings;

use Bench::Print qw(title number grouped);
use Bench::Quiet;
use Bench::Stats qw(median ratios spread);

sub quiet {
    my ($quiet) = @_;
    title(sprintf 'The cap is not reached: 1 node, %d worker%s%s, %d clients',
        $quiet->workers, $quiet->workers == 1 ? '' : 's',
        $quiet->pinned ? ' on a CPU of its own' : '', Bench::Quiet::CLIENTS);
    printf "%-22s%8s%7s%7s%7s%8s%7s%7s%7s\n", @$_ for
        ['', '', '', 'p50', 'p99', 'nginx', 'Redis', 'Redis', 'inside'],
        ['', qw(req/s ratio ms ms us us calls calls)];
    for my $subject ($quiet->subjects) {
        printf '%-22s', $subject->title;
        my %m = $quiet->medians($subject);
        my ($ratio) = against_limit_conn($quiet, $subject->key, 'rate');
        printf "%8s%7s %6.2f %6.2f %7.1f%7.1f %6.3f %6.3f\n", grouped($m{rate}),
            number('%.2f', $ratio), @m{qw(p50 p99 front redis sent inner)};
    }
    print <<'EOF_LEGEND';
ratio: requests per second, to limit_conn; us: CPU time per request; calls:
commands sent to Redis per request, and commands called inside scripts
EOF_LEGEND
    polled($quiet);
}

# The same node while clients poll its API.
sub polled {
    my ($quiet) = @_;
    my %m = map { $_ => $quiet->median_of('polled', $_) }
        qw(rate p99 polls size alone);
    printf "dsem, reuse, with %s GET /semaphores of %.1f KB a second:\n"
        . "%s requests/s, p99 %.2f ms; without requests %.1f %% of a CPU\n",
        grouped($m{polls}), $m{size} / 1024, grouped($m{rate}), $m{p99},
        100 * $m{alone};
}

sub against_limit_conn {
    my ($quiet, $key, $what) = @_;
    return against($quiet->seen($key, $what),
        $quiet->seen('limit_conn', $what));
}

# (median, smallest, largest) of the ratios; nothing without both series
sub against {
    my ($over, $under) = @_;
    return unless $over && $under;
    return middle(ratios($over, $under));
}

sub middle { (scalar median(@_), spread(@_)) }

sub contended {
    my ($contended) = @_;
    for my $case ($contended->cases) {
        title(sprintf 'The cap is reached: limit %d, %d ms of service, '
            . '%d clients', @$case{qw(limit ms clients)});
        printf "%-19s%4s%8s%8s%7s%6s%6s%6s%6s%5s%5s\n", @$_ for
            ['', '', 'goodput', '503 per', 'answer', 'p50', 'p99', 'max',
                'Redis', 'Red.', ''],
            ['', 'peak', '% ideal', 'success', 'ideal', 'ms', 'ms', 'ms',
                'calls', 'us', 'Jain'];
        for my $subject ($contended->subjects) {
            printf '%-19s', $subject->capped ? $subject->title
                : sprintf 'no cap, %d client%s', $case->{limit},
                    $case->{limit} == 1 ? '' : 's';
            my %m = $contended->medians($case, $subject);
            printf "%4s%8s%8s%7s%6s%6s%6s%6s%5s%5s\n", $m{peak} // '-',
                number('%.1f', $m{goodput} && 100 * $m{goodput}),
                number('%.1f', $m{refused}),
                map({ number($case->{ms} < 10 ? '%.1f' : '%.0f', $_) }
                    $m{ideal}, @m{qw(p50 p99 max)}),
                number('%.2f', $m{sent}), number('%.0f', $m{redis}),
                number('%.2f', $m{jain});
        }
    }
    print <<'EOF_LEGEND';
2 nodes with 2 workers each; HAProxy is one host.  peak: at the backend, in all
rounds; goodput: of limit / measured service time; ideal: clients * service /
limit; p50, p99, max: time to the response; Redis: calls and CPU time per
request
EOF_LEGEND
}

###########################################################################
# targets

sub targets {
    my ($quiet, $contended) = @_;
    title('Targets and results (smallest .. largest round)');
    noise($quiet);
    my $sent = $quiet->seen('reuse', 'sent');
    target('throughput / limit_conn', '>=', 0.95,
        against_limit_conn($quiet, 'reuse', 'rate'));
    target('p99 / limit_conn', '<=', 1.10,
        against_limit_conn($quiet, 'reuse', 'p99'));
    target('Redis commands per request', '<=', 0.1, middle(@$sent));
    target('throughput, API polled / not', '>=', 0.97,
        against(map { $quiet->seen($_, 'rate') } qw(polled reuse)));
    target('CPU of nginx, API polled / not', '<=', 1.03,
        against(map { $quiet->seen($_, 'front') } qw(polled reuse)));
    target('CPUs of nginx for the polls alone', '<=', 0.03,
        middle(@{ $quiet->seen('polled', 'alone') }));
    target('throughput, no reuse / Lua', '>=', 2.0,
        against(map { $quiet->seen($_, 'rate') } qw(no_reuse lua)));
    target('Redis CPU per request, no reuse / Lua', '<=', 0.33,
        against(map { $quiet->seen($_, 'redis') } qw(no_reuse lua)));
    for my $case (grep { $_->{limit} > 1 } $contended->cases) {
        my %seen = map { $_ => $contended->seen($case->{name}, 'reuse', $_) }
            qw(goodput max ideal);
        target("goodput, limit $case->{limit}", '>=', 0.98,
            middle(@{ $seen{goodput} // [] }));
        target("worst answer / ideal, limit $case->{limit}", '<=', 1.2,
            against(@seen{qw(max ideal)}));
        for (['without a cap', 'plain'], ["HAProxy's", 'haproxy']) {
            my ($name, $key) = @$_;
            without_target("goodput / $name, limit $case->{limit}",
                against($seen{goodput},
                    $contended->seen($case->{name}, $key, 'goodput')));
        }
    }
}

# The difference between two equal subjects.
sub noise {
    my ($quiet) = @_;
    for (['throughput', 'rate'], ['p99', 'p99']) {
        my ($name, $what) = @$_;
        without_target("noise: $name, limit_conn, again / limit_conn",
            against_limit_conn($quiet, 'limit_conn_again', $what));
    }
}

# A ratio without a target.
sub without_target {
    my ($name, @ratio) = @_;
    printf "%-49s%8s  (%s .. %s)\n", $name,
        map { number('%.3f', $_) } @ratio[ 0 .. 2 ];
}

sub target {
    my ($name, $relation, $aim, $value, @spread) = @_;
    printf '%-40s%s %.2f ', $name, $relation, $aim;
    return print "not measured\n" unless defined $value;
    my $there = $relation eq '>=' ? $value >= $aim : $value <= $aim;
    printf "%9.3f  (%.3f .. %.3f)  %s\n", $value, @spread,
        $there ? 'yes' : 'NO';
}

1;
