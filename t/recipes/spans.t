#!/usr/bin/perl

# Recipe "Spans of OpenTelemetry": its directives are those of nginx's otel
# module, which need not be there, at the levels where it has them; its
# attributes are variables that have their values when a request is logged.

use lib qw(t/lib t/run);
use Dsem::Recipe;
use Dsem::Test;

# name => levels and number of words, as nginx.org has them
my %OTEL = (
    otel_exporter => [['http'], 0], endpoint => [['otel_exporter'], 1],
    otel_service_name => [['http'], 1],
    otel_trace => [[qw(http server location)], 1],
    otel_trace_context => [[qw(http server location)], 1],
    otel_span_attr => [[qw(http server location)], 2],
);

my $recipe = recipe('Spans of OpenTelemetry');

my (@levels, @used, %attribute);
for my $line (split /\n/, $recipe) {
    my ($name, @words) = $line =~ /[^\s;{}]+/g;
    if (defined $name && $OTEL{$name}) {
        my ($levels, $n) = @{ $OTEL{$name} };
        push @used, $name;
        ok scalar(grep { $_ eq ($levels[-1] // 'http') } @$levels),
            "$name: level";
        is @words, $n, "$name: words";
        $attribute{ $words[0] } = $words[1] if $name eq 'otel_span_attr';
    }
    push @levels, $name if $line =~ /\{$/;
    pop @levels if $line =~ /^\s*\}$/;
}
is_deeply [ sort keys %{{ map { $_ => 1 } @used }} ], [ sort keys %OTEL ],
    'all are used';

# the rest, with the attributes in the access log

$recipe =~ s/^otel_exporter \{.*?^\}\n//ms;
$recipe =~ s/^\s*otel_.*\n//mg;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $format = join ' ', map { "$_=$attribute{$_}" } sort keys %attribute;
my $node = $t->node('n1', <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    log_format span '%%FORMAT%%';
    access_log %%DIR%%/span.log span;
    upstream backend {
        server %%UPSTREAM%%;
    }
    %%RECIPE%%
}
EOF_CONF
    =~ s/%%FORMAT%%/$format/r);

my @held = map { $node->begin('/api/?hang=1') } 1 .. 20;
wait_for { $up->now == 20 } 15, 'all permits in use';
my $queued = $node->begin('/api/');
wait_for { $t->state->waiting('api') == 1 } 15, 'one waits';
$up->release_all;
is $_->wait->status, 200, 'served' for @held, $queued;

my @spans;
eventually { @spans = spans(); @spans == 21 } 'all are logged';
my %queued = map { /(\S+)=(\S*)/g } grep { /=QUEUED/ } @spans;
is_deeply [ @queued{qw(dsem.name dsem.queue_position)} ], ['api', 1],
    'one has waited';
cmp_ok $queued{'dsem.wait_time'}, '>', 0, 'for some time';
is scalar(grep { /dsem\.status=PASSED/ } @spans), 20, 'the others have not';

$t->done;

sub spans {
    open my $fh, '<', $node->dir . '/span.log' or return;
    return <$fh>;
}
