//! The server. The listener and the shutdown signal are passed in, so that a test can use port 0 and
//! stop it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use spechop_proto::admin_server::AdminServer;
use spechop_proto::spec_hop_server::SpecHopServer;
use spechop_proto::{DESCRIPTORS, SERVICE};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::service::RoutesBuilder;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::admin::Admin;
use crate::config::Config;
use crate::cores;
use crate::drafts::DraftKeeper;
use crate::hot::HotKeeper;
use crate::memory::MemoryKeeper;
use crate::retrieve::{self, Retrievals};
use crate::service::{Phases, Service};
use crate::toolbox::{OpenError, Toolbox};
use crate::transport::{Doors, Lines, Transport};
use crate::tuning::Keeper;
use crate::vitals;

/// How long clients may take to hang up after the last question has ended.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the metrics are written in.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is not gRPC, and what is not either if retrieval is served.
const DOORS: Doors = Doors {
    pages: &["/metrics"],
    json: &[],
};
const DOORS_AND_RETRIEVAL: Doors = Doors {
    json: &[retrieve::PATH],
    ..DOORS
};

/// Everything that is needed to serve.
pub struct App {
    service: Service,
    phases: Phases,
    shutdown_grace: Duration,
    transport: Transport,
}

/// Why the server ended without having been asked to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener cannot be used.
    #[error("cannot serve on the listener")]
    Listener(#[source] io::Error),
    /// The reflection service could not be built from our own descriptors.
    #[error("cannot describe the service for reflection")]
    Reflection(#[source] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("the server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// A handle that counts open questions and connections; for tests and operators.
#[derive(Clone)]
pub struct Gauges {
    questions: Service,
    lines: Lines,
}

impl Gauges {
    /// Questions that are being answered, or whose answers are being read.
    pub fn questions_open(&self) -> usize {
        self.questions.questions_open()
    }

    /// Connections that are open.
    pub fn connections_open(&self) -> usize {
        self.lines.open()
    }
}

impl App {
    /// Opens the models and indexes of the configuration, on a thread that may block.
    ///
    /// # Errors
    ///
    /// The first part that cannot be opened.
    pub async fn build(config: Config) -> Result<Self, OpenError> {
        let (done, opened) = oneshot::channel();
        let config = Arc::new(config);
        let blocking = Arc::clone(&config);
        // Not awaited as a task: it cannot be aborted, and whoever waits may go away.
        tokio::task::spawn_blocking(move || {
            let _ = done.send(Toolbox::open(&blocking));
        });
        let toolbox = opened.await.map_err(OpenError::of("models"))??;
        Ok(Self::with_toolbox(Arc::unwrap_or_clone(config), toolbox))
    }

    /// A server over these ports. The models and indexes of the configuration are not opened.
    pub fn with_toolbox(config: Config, toolbox: Toolbox) -> Self {
        let phases = Phases::default();
        let (shutdown_grace, limits) = (
            config.server.shutdown_grace,
            config.server.transport.clone(),
        );
        let service = Service::new(config, toolbox, phases.clone());
        let counts = service.shared().metrics.transport.clone();
        Self {
            service,
            phases,
            shutdown_grace,
            transport: Transport::new(limits, counts),
        }
    }

    /// A handle to this server's counts, which works while it serves.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            questions: self.service.clone(),
            lines: self.transport.lines(),
        }
    }

    /// Serves until `shutdown` is done and the open questions have ended, which takes the grace
    /// period at most, and a second for clients that stay on the line. What earlier servers had learnt
    /// is taken up before, and what this one has learnt is written down behind it.
    ///
    /// # Errors
    ///
    /// Whatever ends the server early.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let shared = self.service.shared();
        let keeper = Keeper::open(&shared.config, &shared.tunings).await;
        let memory = shared.toolbox.memory.as_ref();
        let file = shared.config.speculator.memory.file.as_deref();
        let memory = MemoryKeeper::open(memory, file).await;
        let (traffic, subset) = (&shared.toolbox.traffic, &shared.toolbox.hot);
        let hot = HotKeeper::open(&shared.config, traffic.as_ref(), subset.as_ref()).await;
        let (drafter, file) = (&shared.toolbox.drafter, &shared.config.drafter.file);
        let drafts = DraftKeeper::open(drafter.as_ref(), file.as_deref()).await;
        let served = tokio::select! {
            served = self.answer_until(listener, shutdown) => served,
            never = keeper.keep() => match never {},
            never = memory.keep() => match never {},
            never = hot.keep() => match never {},
            never = drafts.keep() => match never {},
            never = cores::keep(shared.toolbox.cores.as_ref(), &shared.config) => match never {},
        };
        keeper.save().await;
        memory.save().await;
        hot.save().await;
        drafts.save().await;
        served
    }

    async fn answer_until(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let address = listener.local_addr().map_err(ServeError::Listener)?;
        let (mut health, health_service) = tonic_health::server::health_reporter();
        report(&health, ServingStatus::Serving).await;
        // Both versions of reflection know of each other: older clients speak the older one.
        let described = || {
            tonic_reflection::server::Builder::configure()
                .include_reflection_service(false)
                .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(
                    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
                )
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(DESCRIPTORS)
        };
        let shared = self.service.shared();
        let parts = shared.toolbox.vitals.clone();
        let admin = AdminServer::new(Admin::new(Arc::clone(&shared)));
        let spec_hop = SpecHopServer::new(self.service.clone());
        let mut routes = RoutesBuilder::default();
        routes
            .add_service(spec_hop)
            .add_service(admin)
            .add_service(health_service)
            .add_service(described().build_v1().map_err(ServeError::Reflection)?)
            .add_service(
                described()
                    .build_v1alpha()
                    .map_err(ServeError::Reflection)?,
            );
        let (mut pages, mut doors) = (routes.routes().into_axum_router(), DOORS);
        if shared.config.server.retrieve {
            doors = DOORS_AND_RETRIEVAL;
            let retrievals = Retrievals::new(Arc::clone(&shared), self.phases.clone());
            pages = pages.route(retrieve::PATH, retrievals.route());
        }
        let pages = pages.route(
            "/metrics",
            get(move || async move { ([(CONTENT_TYPE, METRICS_TYPE)], shared.metrics.text()) }),
        );
        let Phases { closing, closed } = self.phases;
        let stop = {
            let (health, closing) = (health.clone(), closing.clone());
            async move {
                shutdown.await;
                closing.cancel();
                report(&health, ServingStatus::NotServing).await;
                tracing::info!("shutting down: open questions may end, new ones are refused");
            }
        };
        let serving = self.transport.serve(listener, address, pages, doors, stop);
        tokio::pin!(serving);
        tracing::info!(%address, "ready");

        let grace_is_over = async {
            closing.cancelled().await;
            let no_question_is_open = async {
                self.service.idle().await;
                // Their clients have heard it, and those who only sit there need no longer.
                tokio::time::sleep(FAREWELL).await;
            };
            let _ = tokio::time::timeout(self.shutdown_grace, no_question_is_open).await;
        };
        tokio::select! {
            result = &mut serving => return Ok(result?),
            () = grace_is_over => {}
            never = vitals::tell(&parts, &health) => match never {},
        }
        let questions_were_open = self.service.questions_open() > 0;
        closed.cancel();
        // Ends the health watches, which would otherwise keep their connections open.
        for service in ["", SERVICE] {
            health.clear_service_status(service).await;
        }
        if questions_were_open {
            // Their clients hear first what became of them.
            tokio::select! {
                result = &mut serving => return Ok(result?),
                () = tokio::time::sleep(FAREWELL) => {}
            }
        }
        self.transport.lines().dismiss_idle();
        match tokio::time::timeout(FAREWELL, serving).await {
            Ok(result) => Ok(result?),
            Err(_) => {
                tracing::warn!("some clients did not hang up");
                Ok(())
            }
        }
    }
}

/// For the whole server, and for its one service.
pub(crate) async fn report(health: &HealthReporter, status: ServingStatus) {
    for service in ["", SERVICE] {
        health.set_service_status(service, status).await;
    }
}
