#!/usr/bin/perl

# The rules of the house: folders and the direction of includes and calls,
# what is written in one place only, the form of the sources.

use warnings;
use strict;

use Test::More;

use FindBin;

my $root = "$FindBin::Bin/../..";

# from the bottom up; "" is ngx_module/ itself
my @FOLDERS = ('redis', 'node', 'session', 'fleet', 'semaphore', 'conf',
    'http', '');
my %floor = map { $FOLDERS[$_] => $_ } 0 .. $#FOLDERS;

my %TOP = map { $_ => 1 } qw(config conf.example ngx_module lua t README.md
    Makefile LICENSE CHANGELOG.md .ci bin debian docs monitoring packaging
    compose.yaml),
    qw(.git .gitignore build);

sub slurp {
    my ($path) = @_;
    open my $fh, '<', $path or die "$path: $!";
    local $/;
    return <$fh>;
}

sub none {
    my ($name, @wrong) = @_;
    is scalar(@wrong), 0, $name or diag join "\n", @wrong;
}

# Lines of these files that match, as "file: line".
sub lines {
    my ($re, %text) = @_;
    return map {
        my $file = $_;
        map { "$file: $_" } grep { /$re/ } split /\n/, $text{$file};
    } sort keys %text;
}

# "folder/name.c" => text, without the common prefix of names
my %c = map {
    m{/ngx_module/(.*?)ngx_http_dsem_([^/]*)$} ? ("$1$2" => slurp($_)) : ()
} glob "$root/ngx_module/*.[ch] $root/ngx_module/*/*.[ch]";
my %lua = map { s{^\Q$root\E/}{}r => slurp($_) }
    glob "$root/lua/*.lua $root/lua/include/*.lua";
my %perl = map { s{^\Q$root\E/}{}r => slurp($_) }
    split /\n/, `find $root/t -name '*.t' -o -name '*.p[lm]'`;
my %fuzz = map { s{^\Q$root\E/}{}r => slurp($_) } glob "$root/t/fuzz/*.[ch]
    $root/t/fuzz/target/*.c $root/t/api/*.c $root/t/faults/*.c";

cmp_ok scalar(keys %c), '>', 20, 'module found';
cmp_ok scalar(keys %lua), '>', 8, 'scripts found';
cmp_ok scalar(keys %perl), '>', 20, 'tests found';

sub folder { my ($file) = @_; return $file =~ m{^(.*)/} ? $1 : '' }
sub room { my ($file) = @_; return $file =~ s/\.[ch]$//r }

# comments may name what the code must not
my %code = map { $_ => $c{$_} =~ s{/\*.*?\*/}{}gsr } keys %c;
my %body = map { $_ => $code{$_} =~ s{^#include .*}{}gmr } keys %code;

sub code_of {
    my ($want) = @_;
    return map { $_ => $code{$_} } grep { $want->($_) } keys %code;
}


# folders

none('every file in a known folder',
    grep { !exists $floor{ folder($_) } } sort keys %c);

my %where = map { m{([^/]*)\.h$} ? ($1 => $_) : () } keys %c;

# room => rooms of the same folder whose headers it includes
my (%includes, @upward);
for my $file (sort keys %code) {
    for my $name ($code{$file} =~ /^#include "ngx_http_dsem_([^"]+)\.h"/mg) {
        # module.h only names the module, for those who look up its conf
        next if $name eq 'module';
        my $other = $where{$name} // die "$file includes $name.h";
        my ($own, $its) = (folder($file), folder($other));
        push @upward, "$file: $other" if $floor{$its} > $floor{$own};
        $includes{ room($file) }{ room($other) } = 1
            if $own eq $its && room($file) ne room($other);
    }
}
none('includes point to the own folder or below', @upward);

# Rooms from which a way leads back to themselves.
sub circles {
    my ($edge) = @_;
    return grep {
        my $start = $_;
        my @next = keys %{ $edge->{$start} || {} };
        my %seen;
        while (defined(my $room = shift @next)) {
            next if $seen{$room}++;
            push @next, keys %{ $edge->{$room} || {} };
        }
        $seen{$start};
    } sort keys %$edge;
}
none('no circles of includes in a folder', circles(\%includes));

my %defined_in;
for my $file (grep { /\.c$/ } keys %code) {
    $defined_in{$_} = $file
        for $code{$file} =~ /^(ngx_http_dsem_\w+)\([^;{]*\)\n\{/mg;
}
cmp_ok scalar(keys %defined_in), '>', 200, 'functions found';

my %calls;
for my $file (grep { /\.c$/ } keys %code) {
    for my $name ($body{$file} =~ /\b(ngx_http_dsem_\w+)\b/g) {
        my $other = $defined_in{$name} // next;
        $calls{ room($file) }{ room($other) } = 1
            if $other ne $file && folder($other) eq folder($file);
    }
}
none('no circles of calls in a folder', circles(\%calls));

# a call upwards would not need an include
none('no calls upwards', map {
    my $file = $_;
    map { "$file: $_" } grep {
        $defined_in{$_} && $floor{ folder($defined_in{$_}) }
            > $floor{ folder($file) }
    } $body{$file} =~ /\b(ngx_http_dsem_\w+)\b/g;
} grep { /\.c$/ } sort keys %code);


# A function bears the name of its file, or of none: that of another file sends
# the reader there.
my %file_of = map { m{([^/]*)\.c$} ? ($1 => 1) : () } keys %c;
none('no function with the name of another file', map {
    my ($own) = $defined_in{$_} =~ m{([^/]*)\.c$};
    my $named = s/^ngx_http_dsem_//r;
    $named =~ s/_?[^_]*$// while $named ne '' && !$file_of{$named};
    $named eq '' || $named eq $own ? () : "$defined_in{$_}: $_";
} sort keys %defined_in);


# one place for each

none('ledger written in ledger only',
    lines(qr/account->(?:held|idle|pending_release|last_reported)
             \s*(?:[-+]?=(?!=)|\+\+|--)/x,
        code_of(sub { $_[0] ne 'semaphore/ledger.c' })));
none('keys built in key only',
    lines(qr/":(?:s|q|c|sessions|epochs|orders)\b|\{0\}/,
        code_of(sub { $_[0] ne 'redis/key.c' })));
none('keys of tests in State only',
    lines(qr/dsem:\\?\{0\\?\}:(?:s|q|sessions|epochs|orders|census)\b/,
        map { $_ => $perl{$_} } grep { !m{/(?:State\.pm|bench_edition\.t)$} }
            keys %perl));
none('hiredis in redis only',
    lines(qr/<hiredis|\bredis(?:Reply|Reader|Async|Context)/,
        code_of(sub { folder($_[0]) ne 'redis' })));
none('requests in http only',
    lines(qr/ngx_http_request_t/,
        code_of(sub { folder($_[0]) ne 'http' && folder($_[0]) ne '' })));
none('no http below conf',
    lines(qr/<ngx_http\.h>/,
        code_of(sub { $floor{ folder($_[0]) } < $floor{conf} })));
none('no sockets of our own',
    lines(qr/\b(?:recv|send)\(|ngx_event_connect_peer|redisReaderFeed/,
        %code));
none('no assert', lines(qr/\bassert\s*\(/, %code));

# tables have an initializer, everything else without one is state
none('one variable of state per room', map {
    my @state = $code{$_} =~ /^static\ (?!const\b)[\w ]+?\s\s+\*?
        (ngx_http_\w+)(?:\[\w+\])?;/xmg;
    @state > 1 ? "$_: @state" : ();
} grep { /\.c$/ } sort keys %code);


# form

none('every .c opens with a room comment', grep {
    /\.c$/ && $c{$_} !~ m{\A\n/\*\n( \* \S[^\n]*\n)+ \*\n( \*[^\n]*\n)+ \*/\n}
} sort keys %c);
none('every .lua opens with a comment', grep {
    $lua{$_} !~ /\A-- \S/
} sort keys %lua);

none('functions of 60 lines at most', map {
    my $file = $_;
    my @long = grep { tr/\n// > 60 } $c{$file} =~ /^\{\n.*?^\}\n/msg;
    map { "$file: " . (tr/\n//) } @long;
} grep { /\.c$/ } sort keys %c);

# nginx's headers have it only if nginx has TLS itself
none('OpenSSL is included where it is used', grep {
    $c{$_} =~ /\bSSL_\w+\(/ && $c{$_} !~ m{^#include <openssl/ssl\.h>$}m
} sort keys %c);

# "%d" has 32 bits where Redis has, which are few for a place or a tag
none('numbers alone as %.0f', lines(qr/string\.format\('%d',/, %lua));

none('no tabs', lines(qr/\t/, %c, %fuzz, %lua, %perl));
none('80 columns', lines(qr/^.{81}/, %c, %fuzz, %lua));
none('no trailing blanks', lines(qr/[ \t]+$/, %c, %fuzz, %lua, %perl));
none('one newline at the end', grep {
    my %all = (%c, %fuzz, %lua, %perl);
    $all{$_} !~ /[^\n]\n\z/;
} sort keys %c, keys %fuzz, keys %lua, keys %perl);

none('plain subjects', lines(qr/\b(?:who|whoever|nobody|somebody)\b/i,
    %c, %lua));

opendir my $dir, $root or die "$root: $!";
none('nothing else at the top',
    grep { !$TOP{$_} && !/^\.\.?$/ } sort readdir $dir);
none('nothing generated beside the sources', grep {
        !/\.[ch]$/ && !m{/page\.(?:awk|html)$} && !-d
    }
    glob "$root/ngx_module/* $root/ngx_module/*/*");

done_testing();
