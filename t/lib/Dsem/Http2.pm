package Dsem::Http2;

# An HTTP/2 connection (h2c, with prior knowledge) that can end a stream or
# itself at any moment. It writes frames itself, and decodes only those parts of
# responses that tests need.
#
#   my $h2 = Dsem::Http2->new($node->raw);
#   my $stream = $h2->get('/path', 'x-header' => 'value');
#   is($h2->status($stream), 200);
#   my $post = $h2->post('/path', $body, 'content-length' => length $body);
#   $h2->rst($stream);              # RST_STREAM
#   $h2->close; $h2->reset;         # the connection: FIN, RST
#
# new(..., window => 0): initial receive window of a stream in bytes, to be
# extended by window($stream, $bytes); without it all is read. begin_post and
# data send a body in pieces. Data beyond nginx's windows is sent by the next
# call that reads, when they open. ping waits until nginx has processed all
# earlier frames.
#
# Called by: tests.

use strict;
use warnings;

use List::Util qw(min);

use Dsem::Wait qw(wait_for);

my %TYPE = (DATA => 0, HEADERS => 1, RST_STREAM => 3, SETTINGS => 4,
    PING => 6, GOAWAY => 7, WINDOW_UPDATE => 8);
my ($ACK, $END_STREAM, $END_HEADERS) = (1, 1, 4);
my $CANCEL = 8;
my $INITIAL_WINDOW_SIZE = 4;
my $FRAME_SIZE = 16_384;

# of HPACK's static table
my %INDEXED_STATUS = (0x88 => 200, 0x89 => 204, 0x8a => 206, 0x8b => 304,
    0x8c => 400, 0x8d => 404, 0x8e => 500);

sub new {
    my ($class, $raw, %opt) = @_;
    my $self = bless {
        raw => $raw, in => '', next => 1, status => {}, ended => {},
        body => {}, unsent => {}, initial => 65_535, window => { 0 => 65_535 },
        by_hand => defined $opt{window},
    }, $class;
    my $settings = defined $opt{window}
        ? pack 'nN', $INITIAL_WINDOW_SIZE, $opt{window} : '';
    $raw->send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        . frame('SETTINGS', 0, 0, $settings));
    return $self;
}

sub raw { $_[0]{raw} }

sub frame {
    my ($type, $flags, $stream, $payload) = @_;
    $payload //= '';
    return substr(pack('N', length $payload), 1)
        . pack('CCN', $TYPE{$type}, $flags, $stream) . $payload;
}

###########################################################################
# out

# Number of the new stream and bytes of the request; sends nothing.
sub request {
    my ($self, $path, @header) = @_;
    return $self->head('GET', $END_STREAM, $path, @header);
}

sub head {
    my ($self, $method, $flags, $path, @header) = @_;
    my $stream = $self->{next};
    $self->{next} += 2;
    my $block = '';
    my @field = (':method' => $method, ':scheme' => 'http', ':path' => $path,
        ':authority' => 'localhost', @header);
    while (my ($name, $value) = splice @field, 0, 2) {
        # literal, not indexed, without Huffman
        $block .= "\0" . string($name) . string($value);
    }
    return $stream,
        frame('HEADERS', $flags | $END_HEADERS, $stream, $block);
}

# An HPACK string: the length with a prefix of 7 bits, then the bytes.
sub string {
    my ($bytes) = @_;
    my $length = length $bytes;
    return chr($length) . $bytes if $length < 127;
    my $rest = $length - 127;
    my $number = "\x7f";
    while ($rest >= 128) {
        $number .= chr($rest % 128 + 128);
        $rest = int($rest / 128);
    }
    return $number . chr($rest) . $bytes;
}

sub get {
    my ($self, $path, @header) = @_;
    my ($stream, $frame) = $self->request($path, @header);
    $self->{raw}->send($frame);
    return $stream;
}

sub begin_post {
    my ($self, $path, @header) = @_;
    my ($stream, $frame) = $self->head('POST', 0, $path, @header);
    $self->{raw}->send($frame);
    $self->{window}{$stream} = $self->{initial};
    $self->{unsent}{$stream} = { bytes => '', last => 0 };
    return $stream;
}

sub data {
    my ($self, $stream, $bytes, $last) = @_;
    my $unsent = $self->{unsent}{$stream};
    $unsent->{bytes} .= $bytes;
    $unsent->{last} = $last;
    return $self->pump;
}

sub post {
    my ($self, $path, $body, @header) = @_;
    my $stream = $self->begin_post($path, @header);
    $self->data($stream, $body, 'last');
    return $stream;
}

# Sends data as far as the windows allow.
sub pump {
    my ($self) = @_;
    my ($window, $all) = @$self{qw(window unsent)};
    for my $stream (sort { $a <=> $b } keys %$all) {
        my $unsent = $all->{$stream};
        while (length $unsent->{bytes} || $unsent->{last}) {
            my $n = min(length $unsent->{bytes}, $FRAME_SIZE,
                $window->{0}, $window->{$stream});
            last if $n <= 0 && length $unsent->{bytes};
            my $piece = substr $unsent->{bytes}, 0, $n, '';
            $window->{$_} -= $n for 0, $stream;
            my $end = $unsent->{last} && !length $unsent->{bytes};
            $self->{raw}->send(
                frame('DATA', $end ? $END_STREAM : 0, $stream, $piece));
            delete $all->{$stream} if $end;
            last if $end;
        }
    }
    return $self;
}

# Extends the receive window of a stream, or of the connection (stream 0).
sub window {
    my ($self, $stream, $bytes) = @_;
    $self->{raw}->send(
        frame('WINDOW_UPDATE', 0, $stream, pack 'N', $bytes));
    return $self;
}

# Waits until nginx has processed all that was sent.
sub ping {
    my ($self) = @_;
    my $before = $self->{pongs} // 0;
    $self->{raw}->send(frame('PING', 0, 0, 'whatever'));
    wait_for {
        $self->read;
        ($self->{pongs} // 0) > $before;
    } undef, 'the reply to a ping';
    return $self;
}

sub rst_frame { frame('RST_STREAM', 0, $_[1], pack 'N', $CANCEL) }

sub rst {
    my ($self, $stream) = @_;
    delete $self->{unsent}{$stream};
    $self->{raw}->send($self->rst_frame($stream));
    return $self;
}

sub send {
    my ($self, $bytes) = @_;
    $self->{raw}->send($bytes);
    return $self;
}

sub close { $_[0]{raw}->close; return $_[0] }
sub reset { $_[0]{raw}->reset; return $_[0] }

###########################################################################
# in

# Waits for the complete response of a stream; returns its status.
sub status {
    my ($self, $stream, $timeout) = @_;
    wait_for {
        $self->read;
        $self->{ended}{$stream};
    } $timeout, "the response on stream $stream";
    return $self->{status}{$stream};
}

sub ended {
    my ($self, $stream) = @_;
    $self->read;
    return $self->{ended}{$stream};
}

sub read {
    my ($self) = @_;
    $self->{in} .= $self->{raw}->read(0);
    while (length $self->{in} >= 9) {
        my ($high, $low, $type, $flags, $stream)
            = unpack 'CnCCN', $self->{in};
        my $length = $high * 65_536 + $low;
        last if length $self->{in} < 9 + $length;
        my $payload = substr substr($self->{in}, 0, 9 + $length, ''), 9;
        $self->take($type, $flags, $stream, $payload);
    }
    $self->pump if %{ $self->{unsent} };
}

# Received part of the stream's response body.
sub body {
    my ($self, $stream) = @_;
    $self->read;
    return $self->{body}{$stream} // '';
}

sub take {
    my ($self, $type, $flags, $stream, $payload) = @_;
    if ($type == $TYPE{HEADERS}) {
        $self->{status}{$stream} //= status_in($payload);
    } elsif ($type == $TYPE{DATA}) {
        $self->{body}{$stream} .= $payload;
        $self->reopen($stream, length $payload, $flags & $END_STREAM)
            unless $self->{by_hand};
    } elsif ($type == $TYPE{WINDOW_UPDATE}) {
        $self->{window}{$stream} += unpack 'N', $payload;
    } elsif ($type == $TYPE{SETTINGS} && !($flags & $ACK)) {
        $self->set(unpack '(nN)*', $payload);
        return $self->{raw}->send(frame('SETTINGS', $ACK, 0));
    } elsif ($type == $TYPE{PING} && !($flags & $ACK)) {
        return $self->{raw}->send(frame('PING', $ACK, 0, $payload));
    } elsif ($type == $TYPE{PING}) {
        $self->{pongs}++;
    } elsif ($type == $TYPE{RST_STREAM}) {
        $self->{ended}{$stream} = 'reset';
        delete $self->{unsent}{$stream};
    }
    $self->{ended}{$stream} = 'whole'
        if $flags & $END_STREAM
        && ($type == $TYPE{HEADERS} || $type == $TYPE{DATA});
}

# Extends the windows by the bytes that were read.
sub reopen {
    my ($self, $stream, $bytes, $ended) = @_;
    return unless $bytes;
    $self->window($_, $bytes) for 0, $ended ? () : $stream;
}

# A new window size also applies to open streams.
sub set {
    my ($self, %setting) = @_;
    my $size = $setting{$INITIAL_WINDOW_SIZE} // return;
    $self->{window}{$_} += $size - $self->{initial}
        for grep { $_ } keys %{ $self->{window} };
    $self->{initial} = $size;
}

# The status is the first field after table size updates, in one of two forms.
sub status_in {
    my ($block) = @_;
    $block =~ s/^[\x20-\x3f]+//;
    return $INDEXED_STATUS{ ord $block }
        // ($block =~ /^[\x08\x48]\x03(\d{3})/ ? $1 : undef);
}

1;
