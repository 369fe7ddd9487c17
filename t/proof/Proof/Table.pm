package Proof::Table;

# The rows of "make proof", each kept in a file of its own so that later runs of
# other stages keep it, and the tables made of them, in Markdown.
#
# Called by: proof; t/house/proof.t.

use strict;
use warnings;

use Cpanel::JSON::XS ();

my $json = Cpanel::JSON::XS->new->canonical;

# what t/matrix/README.md calls the systems; with a variable of it where they do
# not run all tests
my %SYSTEM = (
    'this' => 'Debian 12', 'debian12-i386' => 'Debian 12, i386 (32 bits)',
    'debian13' => 'Debian 13', 'debian13-valkey' => 'Debian 13: `VALKEY_T`',
    'nginx' => 'nginx from source, module dynamic',
    'nginx-static' => 'nginx from source, module linked in',
    'nginx-stable' => 'stable nginx from source, module dynamic',
    'musl' => 'stable nginx and hiredis with musl: `MUSL_T`',
    'openresty' =>
        "OpenResty's nginx and ngx_lua, module linked in: `FORK_T`",
    'angie' => 'Angie from source, module dynamic: `FORK_T`',
);

sub new {
    my ($class, $dir) = @_;
    return bless { dir => $dir }, $class;
}

# row: commit, result ("passed", "failed", "not run"), figures, seconds, and of
# a suite system: the row of t/matrix
sub keep {
    my ($self, $name, $row) = @_;
    # a stage that could not be run leaves the row of a run of before
    return if $row->{result} eq 'not run' && $self->row($name);
    my $path = "$self->{dir}/$name.row";
    open my $fh, '>', "$path.new" or die "$path: $!\n";
    print $fh $json->encode($row);
    close $fh && rename "$path.new", $path or die "$path: $!\n";
}

sub row {
    my ($self, $name) = @_;
    open my $fh, '<', "$self->{dir}/$name.row" or return;
    local $/;
    return $json->decode(<$fh>);
}

sub text {
    my ($self, @stages) = @_;
    return table([qw(stage commit result figures time)], map {
        my $row = $self->row($_->{name});
        $row ? [$_->{what}, @$row{qw(commit result figures)},
            duration($row->{seconds})] : ();
    } @stages);
}

sub compatibility {
    my ($self, @stages) = @_;
    return table(['on x86-64', 'nginx', 'hiredis', 'Redis, Valkey',
        'test files passed', 'failed', 'skipped', 'commit'], map {
        my $row = $self->row($_->{name});
        my $system = $row ? $row->{system} : undef;
        $system ? [$SYSTEM{ $_->{name} },
            @$system{qw(nginx hiredis store passed failed skipped)},
            $row->{commit}] : ();
    } @stages);
}

sub write {
    my ($self, @stages) = @_;
    $self->save('table.md', $self->text(@stages));
    $self->save('compatibility.md', $self->compatibility(@stages));
}

sub save {
    my ($self, $name, $text) = @_;
    open my $fh, '>', "$self->{dir}/$name" or die "$self->{dir}/$name: $!\n";
    print $fh $text;
    close $fh;
}

sub table {
    my ($heading, @rows) = @_;
    return join '', map { '| ' . join(' | ', @$_) . " |\n" }
        $heading, [map { '---' } @$heading], @rows;
}

sub duration {
    my ($seconds) = @_;
    return sprintf '%d:%02d', $seconds / 60, $seconds % 60;
}

1;
