#!/usr/bin/perl

# A body is waited for where nginx reads it whole before it connects to the
# upstream: with proxy_pass, fastcgi_pass, uwsgi_pass and scgi_pass. With
# request buffering off, the upstream gets the first bytes before the last ones
# have been sent, and the request holds its permit.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

# a record of FastCGI may begin in between
my $whole = qr/01234.*56789/s;

# sees the bytes of any protocol
my $backend = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10,
    Proto => 'tcp') or die "listen: $!";

my $node = $t->node('n1', <<'EOF_CONF', BACKEND => $backend->sockport);
dsem_reuse off;
dsem one limit=1 queue=10 timeout=30s;
lingering_close off;
map $uri $variable {
    default 127.0.0.1:%%BACKEND%%;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /proxy {
        proxy_pass http://127.0.0.1:%%BACKEND%%;
        location /proxy/off {
            proxy_request_buffering off;
            proxy_pass http://127.0.0.1:%%BACKEND%%;
        }
        location /proxy/variable {
            proxy_pass http://$variable;
        }
    }
    location /fastcgi {
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_pass 127.0.0.1:%%BACKEND%%;
        # of another module
        proxy_request_buffering off;
        location /fastcgi/off {
            fastcgi_request_buffering off;
            fastcgi_pass 127.0.0.1:%%BACKEND%%;
        }
    }
    location /uwsgi {
        uwsgi_pass 127.0.0.1:%%BACKEND%%;
        location /uwsgi/off {
            uwsgi_request_buffering off;
            uwsgi_pass 127.0.0.1:%%BACKEND%%;
        }
    }
    location /scgi {
        scgi_pass 127.0.0.1:%%BACKEND%%;
        location /scgi/off {
            scgi_request_buffering off;
            scgi_pass 127.0.0.1:%%BACKEND%%;
        }
    }
    location /turn {
        dsem turn limit=10;
        empty_gif;
    }
    location /wait_body_off {
        dsem_wait_body off;
        proxy_pass http://127.0.0.1:%%BACKEND%%;
    }
    location /if {
        proxy_request_buffering off;
        if ($request_method = POST) {
            proxy_pass http://127.0.0.1:%%BACKEND%%;
        }
    }
}
EOF_CONF

sub upload {
    my ($path) = @_;
    my $upload = $node->begin($path, -method => 'POST',
        'Content-Length' => 10);
    $upload->raw->send('01234');
    return $upload;
}

# the upstream connection, when these bytes have come
sub received {
    my ($seen, $bytes) = @_;
    wait_for {
        $seen->{sock} //= IO::Select->new($backend)->can_read(0)
            && $backend->accept;
        $seen->{bytes} //= '';
        $seen->{sock} && IO::Select->new($seen->{sock})->can_read(0)
            && $seen->{sock}->sysread($seen->{bytes}, 4096,
                length $seen->{bytes});
        $seen->{bytes} =~ /$bytes/;
    } undef, "the upstream has $bytes";
    return $seen;
}

sub end {
    my ($upload, $seen) = @_;
    close $seen->{sock};
    $upload->close;
    eventually { state() eq '0 0' } 'permit released';
}

for my $path (qw(/proxy/off /fastcgi/off /uwsgi/off /scgi/off /if)) {
    my $upload = upload($path);
    my $seen = received({}, qr/01234/);
    pass("$path: streamed");
    is(state(), '1 0', 'permit held');
    $upload->raw->send('56789');
    received($seen, $whole);
    pass('body complete');
    end($upload, $seen);
}

for my $path (qw(/proxy /proxy/variable /fastcgi /uwsgi /scgi)) {
    my $upload = upload($path);
    # the worker has the reply to what it would have asked before
    is($node->get('/turn')->status, 200, 'another request meanwhile');
    is(state(), '0 0', "$path: no permit requested");
    ok(!IO::Select->new($backend)->can_read(0), 'no connection to upstream');
    $upload->raw->send('56789');
    my $seen = received({}, $whole);
    is(state(), '1 0', 'permit held after body');
    end($upload, $seen);
}

# without the wait, nginx itself buffers the body

my $upload = upload('/wait_body_off');
wait_for { state() eq '1 0' };
ok(!IO::Select->new($backend)->can_read(0), 'off: permit held before body');
$upload->raw->send('56789');
end($upload, received({}, $whole));

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
