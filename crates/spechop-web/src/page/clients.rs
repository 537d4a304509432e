//! HTTP clients, which keep connections open: one for each tenant and gate.
//!
//! A second page of a site comes faster than the first. A tenant must not notice by that where others
//! have been, so no connection is shared.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::dns::Resolve;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, ClientBuilder, redirect};
use spechop_ports::Call;
use spechop_types::{Owned, OwnedCache, Tenant};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::address::Gate;
use crate::proxy::{Proxy, through};
use crate::resolve::{Guarded, Names, Only};

/// Clients of all tenants and gates together.
const CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Idle connections that a client keeps to a host, and for how long.
const IDLE_MAX: usize = 4;
const IDLE: Duration = Duration::from_secs(60);

pub(super) struct Clients {
    recipe: Arc<Recipe>,
    kept: Mutex<OwnedCache<Gate, Place>>,
}

/// Whoever comes first builds the client; the others wait for it.
type Place = Arc<OnceCell<Client>>;

/// What a client is built by.
pub(super) struct Recipe {
    pub(super) names: Names,
    pub(super) agent: String,
    pub(super) proxy: Option<Proxy>,
}

impl Clients {
    /// Builds the clients of the default tenant at once: what cannot be built is said at the start.
    pub(super) fn new(recipe: Recipe, gates: Vec<Gate>) -> Result<Self, reqwest::Error> {
        // The program's one source of cryptography. Whoever was first has chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut kept = OwnedCache::new(CLIENTS_MAX);
        for gate in gates {
            let client = recipe.build(&gate)?;
            let key = Owned::new(&Tenant::default(), gate);
            kept.insert(key, Place::new(OnceCell::new_with(Some(client))));
        }
        Ok(Self {
            recipe: Arc::new(recipe),
            kept: Mutex::new(kept),
        })
    }

    /// The tenant's client that connects through that gate.
    pub(super) async fn of(&self, call: &Call, gate: Gate) -> Result<Client, String> {
        let place = self.place(call, &gate);
        let build = || async {
            let recipe = Arc::clone(&self.recipe);
            // Certificates are read, which takes milliseconds.
            let built = spawn_blocking(move || recipe.build(&gate)).await;
            let built = built.map_err(|error| error.to_string())?;
            built.map_err(|error| error.to_string())
        };
        place.get_or_try_init(build).await.cloned()
    }

    fn place(&self, call: &Call, gate: &Gate) -> Place {
        let key = call.owned(gate.clone());
        let mut kept = self.kept.lock();
        if let Some(place) = kept.get(&key) {
            return Arc::clone(place);
        }
        let place = Place::default();
        kept.insert(key, Arc::clone(&place));
        place
    }
}

impl Recipe {
    fn build(&self, gate: &Gate) -> Result<Client, reqwest::Error> {
        let is_tls = gate.is_public() || self.proxy.as_ref().is_some_and(Proxy::is_tls);
        match self.describe(gate)?.build() {
            // Without root certificates there is no public internet, but an intranet there may be.
            Err(_) if !is_tls => self.describe(gate)?.tls_certs_only([]).build(),
            built => built,
        }
    }

    fn describe(&self, gate: &Gate) -> Result<ClientBuilder, reqwest::Error> {
        let accept = "text/html,application/xhtml+xml,text/plain;q=0.8";
        let accept = (header::ACCEPT, HeaderValue::from_static(accept));
        // A proxy connects for us, unchecked; only the operator decides on one.
        let client = through(Client::builder(), self.proxy.as_ref())?;
        Ok(client
            .user_agent(&self.agent)
            .default_headers(HeaderMap::from_iter([accept]))
            .dns_resolver(self.names_behind(gate))
            .redirect(redirect::Policy::none())
            .referer(false)
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true))
    }

    /// Who says what names stand for. The only name asked for on the way through a proxy is the proxy's own,
    /// and that may be a neighbour's.
    fn names_behind(&self, gate: &Gate) -> Arc<dyn Resolve> {
        let names = self.names.for_client();
        match &self.proxy {
            Some(proxy) => Arc::new(Only {
                name: proxy.host().map(str::to_owned),
                names,
            }),
            None => Arc::new(Guarded {
                gate: Arc::new(gate.clone()),
                names,
            }),
        }
    }
}
