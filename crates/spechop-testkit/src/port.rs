//! A port of loopback that is the test's own.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port on which nobody listens. As long as this lives, nobody who asks for any free port gets it, and no
/// connection begins there. Whoever is told its number may listen on it, again and again.
#[derive(Debug)]
pub struct OwnPort(TcpSocket);

#[expect(clippy::expect_used, reason = "for tests, which have no better answer")]
impl OwnPort {
    /// One of 127.0.0.1.
    pub fn reserve() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // As servers do. Of sockets that all do so, one may listen on the port that another one holds.
        socket.set_reuseaddr(true).expect("a port to share");
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        socket.bind(any).expect("a free port");
        Self(socket)
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("its address")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.address().port()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn nobody_is_there_but_whoever_was_told_its_number() {
        let port = OwnPort::reserve();
        for _ in 0..2 {
            assert!(TcpStream::connect(port.address()).is_err());
            let _listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
        }
        assert!(TcpStream::connect(port.address()).is_err());
    }
}
