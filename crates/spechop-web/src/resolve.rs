//! The resolver of the client: names become addresses that were checked.
//!
//! The connection is opened to the very addresses that pass here. A check beforehand, with another
//! look-up for the connection, would let a name pass that changes its meaning in between.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use spechop_types::causes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::address::{Forbidden, Gate};

/// Look-ups of names at once. The system's resolver blocks a thread for each, and cannot be stopped.
const LOOKUPS_MAX: usize = 64;

/// Lets through what a [`Gate`] admits.
pub(crate) struct Guarded {
    pub(crate) gate: Arc<Gate>,
    pub(crate) names: Arc<dyn Resolve>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = Arc::clone(&self.gate);
        let found = self.names.resolve(name);
        Box::pin(async move {
            let mut refused = None;
            let mut admitted = Vec::new();
            for address in found.await? {
                match gate.admit(address.ip()) {
                    Ok(()) => admitted.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match (admitted.is_empty(), refused) {
                (true, Some(why)) => Err(why.into()),
                (true, None) => Err("its name has no address".into()),
                _ => Ok(Box::new(admitted.into_iter()) as Addrs),
            }
        })
    }
}

/// Knows one name. Whoever asks for another one has left the way that everything must go.
pub(crate) struct Only {
    /// `None` if none is needed.
    pub(crate) name: Option<String>,
    pub(crate) names: Arc<dyn Resolve>,
}

impl Resolve for Only {
    fn resolve(&self, name: Name) -> Resolving {
        if self.name.as_deref() == Some(name.as_str()) {
            return self.names.resolve(name);
        }
        Box::pin(async { Err("only the proxy looks up names".into()) })
    }
}

/// The resolver of the operating system.
pub(crate) struct System(Arc<Semaphore>);

impl Default for System {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS_MAX)))
    }
}

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        let room = Arc::clone(&self.0);
        Box::pin(async move {
            let place = room.acquire_owned().await?;
            let found = spawn_blocking(move || {
                // Kept until the thread is free, even if nobody waits for it any more.
                let _place = place;
                // The client sets the port.
                (name.as_str(), 0).to_socket_addrs()
            });
            Ok(Box::new(found.await??) as Addrs)
        })
    }
}

/// Why no connection was opened, if this module did not let it.
pub(crate) fn forbidden(error: &(dyn std::error::Error + 'static)) -> Option<Forbidden> {
    causes(error).find_map(|error| error.downcast_ref::<Forbidden>().cloned())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// Every name is this machine.
    struct Here;

    impl Resolve for Here {
        fn resolve(&self, _: Name) -> Resolving {
            let here = SocketAddr::from(([127, 0, 0, 1], 0));
            Box::pin(async move { Ok(Box::new(std::iter::once(here)) as Addrs) })
        }
    }

    #[tokio::test]
    async fn behind_a_proxy_its_own_name_alone_is_looked_up() {
        let only = |name: Option<&str>| Only {
            name: name.map(str::to_owned),
            names: Arc::new(Here),
        };
        for (known, asked, is_found) in [
            (Some("proxy.internal"), "proxy.internal", true),
            (Some("proxy.internal"), "metadata.internal", false),
            // The proxy is named by its address.
            (None, "proxy.internal", false),
        ] {
            let found = only(known).resolve(asked.parse().unwrap()).await;
            assert_eq!(found.is_ok(), is_found, "{known:?} {asked}");
        }
    }
}
