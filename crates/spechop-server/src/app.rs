//! The server. The listener and the shutdown signal are passed in, so that a test can use port 0 and
//! stop it.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use spechop_config::Config;
use spechop_proto::{AskRequest, AskResponse, SERVICE};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::Status;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::admission::Admission;
use crate::caller::Caller;
use crate::cores;
use crate::doors;
use crate::drafts::{DraftKeeper, SharedDrafts};
use crate::hot::HotKeeper;
use crate::memory::MemoryKeeper;
use crate::readiness::Readiness;
use crate::reload::Reloading;
use crate::server_state::{Phases, ServerState};
use crate::shares::Shares;
use crate::spans::{Exporter, InvalidReceiver};
use crate::toolbox::{OpenError, Toolbox};
use crate::transport::{Follower, Lines, Transport, TransportFailure};
use crate::tuning::Keeper;
use crate::vitals;

/// How long clients may take to hang up after the last question has ended.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often it is looked at whether the last answers have been delivered.
const DELIVERY: Duration = Duration::from_millis(50);
/// How long spans may take that are still to be sent off then, and how long all that is shared with other servers.
const FLUSH: Duration = Duration::from_secs(2);

/// Everything that is needed to serve.
pub struct App {
    state: Arc<ServerState>,
    shutdown_grace: Duration,
    transport: Transport,
    reloading: Option<Reloading>,
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
    /// The receiver of traces cannot be used as it is described.
    #[error(transparent)]
    Receiver(#[from] InvalidReceiver),
    /// The transport failed.
    #[error("the server failed")]
    Transport(#[from] TransportFailure),
}

/// A handle that counts open questions and connections; for tests and operators.
#[derive(Clone)]
pub struct Gauges {
    state: Arc<ServerState>,
    lines: Lines,
}

impl Gauges {
    /// Questions that are being answered, or whose answers are being read.
    pub fn questions_open(&self) -> usize {
        self.state.questions_open()
    }

    /// Questions that wait in line for a place.
    pub fn questions_waiting(&self) -> usize {
        self.state.questions_waiting()
    }

    /// 1 from the start, and one more whenever the file was read and taken up, changed or not.
    pub fn config_generation(&self) -> u64 {
        self.state.reloads.generation()
    }

    /// How many changed configurations were refused.
    pub fn config_refusals(&self) -> u64 {
        self.state.reloads.last().refusals
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
        let shutdown_grace = config.server.shutdown_grace;
        let state = ServerState::new(config, toolbox, Phases::default());
        let (config, counts) = (state.config(), state.metrics.transport.clone());
        let transport = Transport::new(&config.server, &config.callers, counts);
        Self {
            state,
            shutdown_grace,
            transport,
            reloading: None,
        }
    }

    /// The same server, which takes up changes of its configuration file.
    #[must_use]
    pub fn reloading(self, reloading: Reloading) -> Self {
        Self {
            reloading: Some(reloading),
            ..self
        }
    }

    /// A handle to this server's counts, which works while it serves.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            state: Arc::clone(&self.state),
            lines: self.transport.lines(),
        }
    }

    /// Answers a question within this process, without any door: on behalf of the tenant without a name, as
    /// every door would.
    ///
    /// # Errors
    ///
    /// What a client of gRPC would hear.
    pub async fn ask(&self, request: &AskRequest) -> Result<AskResponse, Status> {
        let admission = Admission::new(Arc::clone(&self.state));
        let admitted = admission.admit(request, &Caller::default(), None).await?;
        Ok(admitted.answer().await?)
    }

    /// Serves until `shutdown` is done and the open questions have ended, which takes the grace
    /// period at most, and a second for clients that stay on the line. Once no client is connected, questions
    /// that nobody follows end, too. Spans that are still to be sent off have two seconds more, and so has what
    /// is shared with other servers. What earlier servers had learnt is taken up before, and what this one has
    /// learnt is written down behind it.
    ///
    /// # Errors
    ///
    /// Whatever ends the server early.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let state = Arc::clone(&self.state);
        let config = state.config();
        let writing = &state.metrics.writing;
        let keeper = Keeper::open(&config, &state.tunings, writing).await;
        let memory = state.toolbox.memory.as_ref();
        let file = config.speculator.memory.file.as_deref();
        let memory = MemoryKeeper::open(memory, file, writing).await;
        let (traffic, subset) = (&state.toolbox.traffic, &state.toolbox.hot);
        let hot = HotKeeper::open(&config, traffic.as_ref(), subset.as_ref(), writing).await;
        let (drafter, file) = (&state.toolbox.drafter, &config.drafter.file);
        // What is shared needs no file.
        let file = file.as_deref().filter(|_| state.shared_drafts.is_none());
        let drafts = DraftKeeper::open(drafter.as_ref(), file, writing).await;
        let (otlp, queue) = (config.otlp.as_ref(), state.spans.queue());
        let mut exporter = Exporter::open(otlp, queue.map(|queue| &**queue))?;
        let (reloading, follower) = (self.reloading.take(), self.transport.follower());
        // If this future is dropped, no question outlives it.
        let _end = state.phases.closed.clone().drop_guard();
        let served = tokio::select! {
            served = self.answer_until(listener, shutdown) => served,
            never = keeper.keep() => match never {},
            never = memory.keep() => match never {},
            never = hot.keep() => match never {},
            never = drafts.keep() => match never {},
            never = exporter.keep() => match never {},
            never = state.audits.keep(&state) => match never {},
            never = state.questions.sweep(|| state.refuse(&state.unread())) => match never {},
            never = state.keep_accounts() => match never {},
            never = learn(state.shared_drafts.as_ref()) => match never {},
            never = sweep(state.shares.as_deref()) => match never {},
            never = cores::keep(state.toolbox.cores.as_ref(), &config) => match never {},
            never = share_places(&state, follower.several()) => match never {},
            never = follow(reloading, Arc::clone(&state), follower) => match never {},
        };
        // A question that continues without anybody has no connection that was waited for, and nobody can come
        // back for its answer. What it has cost and its spans are written down with the rest.
        state.phases.closed.cancel();
        let _ = tokio::time::timeout(FAREWELL, state.idle()).await;
        exporter.flush(FLUSH).await;
        keeper.save().await;
        memory.save().await;
        hot.save().await;
        drafts.save().await;
        let learnt = async {
            if let Some(drafts) = &state.shared_drafts {
                drafts.turn().await;
            }
        };
        // Whoever keeps what servers share may be slow, and is asked for each tenant and each hop.
        let shared = async { tokio::join!(state.save_accounts(), memory.share(), learnt) };
        if tokio::time::timeout(FLUSH, shared).await.is_err() {
            tracing::warn!("what is shared with other servers could not all be written in time");
        }
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
        let parts = self.state.toolbox.vitals.clone();
        let follower = self.transport.follower();
        let shared = self.state.shared.clone();
        let readiness = Readiness::new(&self.state.config(), parts.clone(), follower, shared);
        let readiness = Arc::new(readiness);
        let admission = Admission::new(Arc::clone(&self.state));
        let house =
            doors::open(&admission, health_service, &readiness).map_err(ServeError::Reflection)?;
        let Phases { closing, closed } = self.state.phases.clone();
        let stop = {
            let (health, closing) = (health.clone(), closing.clone());
            async move {
                shutdown.await;
                closing.cancel();
                report(&health, ServingStatus::NotServing).await;
                tracing::info!("shutting down: open questions may end, new ones are refused");
            }
        };
        let serving = self
            .transport
            .serve(listener, address, house.routes, house.doors, stop);
        tokio::pin!(serving);
        tracing::info!(%address, "ready");

        let grace_is_over = async {
            closing.cancelled().await;
            let no_question_is_open = async {
                self.state.idle().await;
                // Their clients have heard it, and those who only sit there need no longer.
                tokio::time::sleep(FAREWELL).await;
                // What has been answered may still be on its way over a slow line.
                while self.transport.lines().unread() > 0 {
                    tokio::time::sleep(DELIVERY).await;
                }
            };
            let _ = tokio::time::timeout(self.shutdown_grace, no_question_is_open).await;
        };
        tokio::select! {
            result = &mut serving => return Ok(result?),
            () = grace_is_over => {}
            never = vitals::tell(&parts, &readiness, &health) => match never {},
            never = vitals::follow_issuer(&readiness, &health, &closing) => match never {},
        }
        let questions_were_open = self.state.questions_open() > 0;
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

/// Forgets shared runs that have expired, if any may be shared.
async fn sweep(shares: Option<&Shares>) -> Infallible {
    match shares {
        Some(shares) => shares.sweep().await,
        None => pending().await,
    }
}

/// Learns together with other servers, if there are any.
async fn learn(drafts: Option<&SharedDrafts>) -> Infallible {
    match drafts {
        Some(drafts) => drafts.keep().await,
        None => pending().await,
    }
}

/// A tenant may have all places if there is no other. Never ends.
async fn share_places(state: &ServerState, mut several: watch::Receiver<bool>) -> Infallible {
    while several.changed().await.is_ok() {
        let several = *several.borrow_and_update();
        if state.config().callers.are_several != several {
            state.share_places(several);
        }
    }
    pending().await
}

/// Follows the configuration file, if there is one to follow. Never ends.
async fn follow(
    reloading: Option<Reloading>,
    state: Arc<ServerState>,
    follower: Follower,
) -> Infallible {
    match reloading {
        Some(reloading) => reloading.keep(state, follower).await,
        None => pending().await,
    }
}

/// For its one service alone: the process is alive.
pub(crate) async fn report_service(health: &HealthReporter, status: ServingStatus) {
    health.set_service_status(SERVICE, status).await;
}

/// For the whole server, and for its one service.
pub(crate) async fn report(health: &HealthReporter, status: ServingStatus) {
    for service in ["", SERVICE] {
        health.set_service_status(service, status).await;
    }
}
