//! Frames of HTTP/2 (RFC 9113), written by hand: well-behaved clients do not let a test misbehave.

/// What a client says first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub mod kind {
    /// Bytes of a body.
    pub const DATA: u8 = 0;
    /// The head of a request or an answer.
    pub const HEADERS: u8 = 1;
    /// A stream is over before its end.
    pub const RST_STREAM: u8 = 3;
    /// What a peer keeps to.
    pub const SETTINGS: u8 = 4;
    /// Is anybody there?
    pub const PING: u8 = 6;
    /// The connection takes no more streams.
    pub const GOAWAY: u8 = 7;
}

/// The flag of the last frame of a stream, and of an acknowledgement.
pub const END: u8 = 1;
/// The flag of a head that is whole.
const END_HEADERS: u8 = 4;

/// The setting that gives the size of each stream's first window.
pub const INITIAL_WINDOW: u16 = 4;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// What a client sends before its first request.
pub fn greeting(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend(name.to_be_bytes());
        payload.extend(value.to_be_bytes());
    }
    [PREFACE, &frame(kind::SETTINGS, 0, 0, &payload)].concat()
}

/// The head of a request. No field is indexed or compressed (RFC 7541, section 6.2.2).
pub fn head(stream: u32, fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            block.extend(text.as_bytes());
        }
    }
    frame(kind::HEADERS, END_HEADERS | flags, stream, &block)
}

/// The head of a gRPC call.
pub fn call(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields.extend(more);
    head(stream, &fields, 0)
}

/// Bytes of a body.
pub fn data(stream: u32, bytes: &[u8], flags: u8) -> Vec<u8> {
    frame(kind::DATA, flags, stream, bytes)
}

/// A gRPC message of so many announced bytes, of which these are sent.
pub fn message(announced: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0];
    message.extend((announced as u32).to_be_bytes());
    message.extend(bytes);
    message
}

/// A length with a prefix of seven bits (RFC 7541, section 5.1).
fn length(mut length: usize, out: &mut Vec<u8>) {
    if length < 127 {
        out.push(length as u8);
        return;
    }
    out.push(127);
    length -= 127;
    while length >= 128 {
        out.push((length % 128) as u8 | 128);
        length /= 128;
    }
    out.push(length as u8);
}

/// The frames in what a server has sent: kind, flags, stream and payload. What is not whole yet is left
/// out.
pub fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let long = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(long) else {
            break;
        };
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        found.push((head[3], head[4], stream, payload.to_vec()));
        bytes = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let written = [data(3, b"abc", END), frame(kind::PING, 0, 0, &[7; 8])].concat();
        let read = frames(&written[..written.len() - 1]);
        assert_eq!(read, [(kind::DATA, END, 3, b"abc".to_vec())]);
        assert_eq!(frames(&written).len(), 2);
        // A long value takes more than one byte to say so: 127 + 73 = 200.
        let head = head(1, &[("x", &"y".repeat(200))], END);
        assert_eq!(&head[9..15], [0, 1, b'x', 127, 73, b'y']);
    }
}
