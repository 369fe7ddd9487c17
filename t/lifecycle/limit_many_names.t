#!/usr/bin/perl

# A configuration with many literal limits is known by a digest of them: the same
# limits in another order are the same configuration. All of them count, and
# all leave with the node.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
add_header X-Limit $dsem_limit always;
#LOCATIONS
EOF_CONF

# names of all lengths, and one with bytes that are encoded
my @names = ((map { 'n' . 'x' x $_ } 0 .. 99), 'a b%c');

my $many = $t->node('many', conf(9, @names));
my $second = $t->node('second', conf(9, reverse @names));
eventually { keys %{ $t->state->configurations } == 4 }
    'all sessions registered';
eventually { fields('limit') == @names } 'all names';
my @ids = ids();
is scalar(@ids), 1, 'one configuration for both' or diag "@ids";

my $high = $t->node('high', conf(20, @names));
eventually { ids() == 2 } 'another configuration';
my @wrong = grep { $high->get("/$_")->header('X-Limit') != 9 } 0 .. $#names;
is "@wrong", '', 'the lowest limit for each name';

@ids = sort(ids());
$many->reload(conf(9, reverse(@names[0 .. 49]), @names[50 .. $#names]));
eventually { join(' ', sort(ids())) eq "@ids" }
    'reload: the same configurations';
$_->quit for $many, $second;
eventually { ids() == 1 } 'gone with the last session';
@wrong = grep { $high->get("/$_")->header('X-Limit') != 20 } 0 .. $#names;
is "@wrong", '', 'the limit of the other node for each name';
eventually { !fields('leaving') } 'nothing left to withdraw';

$t->done;

sub conf {
    my ($limit, @in_order) = @_;
    my %number = map { $names[$_] => $_ } 0 .. $#names;
    my $locations = join '', map { "location = /$number{$_} { "
        . "dsem '$_' limit=$limit; proxy_pass http://%%UPSTREAM%%; }\n" }
        @in_order;
    return $conf =~ s/#LOCATIONS/$locations/r;
}

sub fields {
    my ($kind) = @_;
    return grep { /^$kind(?::|$)/ } $t->state->limit_fields;
}

sub ids {
    my %id = reverse %{ $t->state->configurations };
    return keys %id;
}
