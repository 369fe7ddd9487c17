package Bench::HAProxy;

# HAProxy with maxconn and its queue: the cap of one host, and the reference for
# a queue. It has as many threads as the other subjects have workers.
#
# Called by: Bench::Subject.

use strict;
use warnings;

use Carp qw(croak);
use IO::Socket::INET;

use Dsem::Process;
use Dsem::Wait qw(wait_for);

sub new {
    my ($class, $stage, %opt) = @_;
    my $port = $stage->free_port;
    my $file = $stage->dir . '/haproxy.' . $port;
    open my $fh, '>', $file or croak "$file: $!";
    print $fh conf($port, %opt);
    close $fh;
    my $process = Dsem::Process->spawn(name => 'haproxy',
        log => "$file.log", argv => [qw(/usr/bin/env haproxy -db -f), $file]);
    wait_for {
        croak "haproxy did not start, see $file.log" unless $process->alive;
        IO::Socket::INET->new("127.0.0.1:$port");
    } 10, 'haproxy to start';
    return bless { process => $process, port => $port }, $class;
}

sub pid { $_[0]{process}->pid }
sub end { $_[0]{process}->end }
sub url { "http://127.0.0.1:$_[0]{port}" }

sub conf {
    my ($port, %opt) = @_;
    my $threads = $opt{workers} * $opt{nodes};
    my $text = <<"EOF_CONF";
global
    nbthread $threads
    maxconn 4000
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 30s
frontend bench
    bind 127.0.0.1:$port backlog 4096
EOF_CONF
    $text .= "    use_backend $_->{name} if { path /$_->{name} }\n"
        for @{ $opt{cases} };
    $text .= <<"EOF_CONF" for @{ $opt{cases} };
backend $_->{name}
    http-request set-path $_->{path}
    server backend @{[ $opt{backend}->address ]} maxconn $_->{limit}
EOF_CONF
    return $text;
}

1;
