//! The resolver of the client: names become addresses that were checked.
//!
//! The connection is opened to the very addresses that pass here. A check beforehand, with another
//! look-up for the connection, would let a name pass that changes its meaning in between.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use spechop_types::causes;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::address::{Forbidden, Gate};

/// Look-ups of names at once. The system's resolver blocks a thread for each, and cannot be stopped.
const LOOKUPS_MAX: usize = 64;
/// Those of one client, which is one tenant's: names whose servers are silent must not hold up the pages of others.
const CLIENT_LOOKUPS_MAX: usize = 16;

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

/// Who says what names stand for.
pub(crate) enum Names {
    /// The operating system.
    System(System),
    /// Somebody else, who has room for all.
    Given(Arc<dyn Resolve>),
}

impl Names {
    /// Whom one client asks.
    pub(crate) fn for_client(&self) -> Arc<dyn Resolve> {
        match self {
            Self::System(system) => Arc::new(system.for_client()),
            Self::Given(names) => Arc::clone(names),
        }
    }
}

/// The resolver of the operating system, as one client has it.
#[derive(Clone)]
pub(crate) struct System {
    /// The room of all clients.
    all: Arc<Semaphore>,
    /// The room of this one.
    own: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            own: Arc::new(Semaphore::new(CLIENT_LOOKUPS_MAX)),
        }
    }
}

impl System {
    fn for_client(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            ..Self::default()
        }
    }

    /// A place in both rooms. Whoever waits for the client's own keeps none from others.
    async fn enter(self) -> Result<[OwnedSemaphorePermit; 2], AcquireError> {
        let own = self.own.acquire_owned().await?;
        Ok([own, self.all.acquire_owned().await?])
    }
}

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        let system = self.clone();
        Box::pin(async move {
            let places = system.enter().await?;
            let found = spawn_blocking(move || {
                // Kept until the thread is free, even if nobody waits for it any more.
                let _places = places;
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

    use futures::FutureExt;

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

    #[test]
    fn names_of_one_client_leave_room_for_those_of_others() {
        let system = System::default();
        let [a, b] = [(); 2].map(|()| system.for_client());
        let enter = |system: &System| system.clone().enter().now_or_never();
        // Of threads that are busy with names of a server that is silent.
        let mut places: Vec<_> = (0..LOOKUPS_MAX).map_while(|_| enter(&a)).collect();
        assert_eq!(places.len(), CLIENT_LOOKUPS_MAX);
        assert!(enter(&b).is_some());
        places.pop();
        assert!(enter(&a).is_some());
        // All of them together have no more than there is.
        let others = [(); LOOKUPS_MAX].map(|()| system.for_client());
        places.extend(others.iter().map_while(enter));
        assert_eq!(places.len(), LOOKUPS_MAX);
    }
}
