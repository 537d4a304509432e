//! What the server holds: configuration, models, accounts, what was learnt, and the open questions. Every
//! door and every question shares it. It knows no door.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use spechop_agent::Settings;
use spechop_config::{Config, Free, SpeculatorKind};
use spechop_ports::{SharedCells, Sparingly};
use spechop_redis::{RedisCells, RedisOptions};
use spechop_types::{Budget, Money, Tenant, ms, with_causes};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::accounts::{Accounts, Hold, Shared};
use crate::audit::Audits;
use crate::drafts::SharedDrafts;
use crate::metrics::Metrics;
use crate::places::{Places, Room};
use crate::questions::Questions;
use crate::reload::{Reloads, Told};
use crate::shares::Shares;
use crate::simulations::Simulations;
use crate::spans::Spans;
use crate::status::AskError;
use crate::toolbox::Toolbox;
use crate::tuning::{TuningOf, Tunings};

/// What all questions and doors share.
pub(crate) struct ServerState {
    /// What counts now.
    config: RwLock<Arc<Config>>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) toolbox: Toolbox,
    /// The speculators that the server offers, the default one first.
    pub(crate) speculators: Vec<SpeculatorKind>,
    pub(crate) tunings: Arc<Tunings>,
    pub(crate) metrics: Metrics,
    pub(crate) spans: Spans,
    pub(crate) audits: Arc<Audits>,
    pub(crate) phases: Phases,
    /// Those that are open, and those that ended a short while ago.
    pub(crate) questions: Arc<Questions>,
    /// Made when tenants are limited for the first time, and kept from then on: who takes a limit away and puts
    /// it back gives nobody a new allowance.
    accounts: OnceLock<Arc<Accounts>>,
    /// Those who keep the same accounts; `None` if nobody does.
    pub(crate) shared: Option<Arc<Shared>>,
    /// Who learns together with others; `None` if nobody does.
    pub(crate) shared_drafts: Option<SharedDrafts>,
    pub(crate) places: Places,
    /// Places of requests for passages, which are no questions.
    pub(crate) retrievals: Places,
    /// The same of requests for vectors.
    pub(crate) vectors: Places,
    warnings: Sparingly,
    /// Whose turn it is to play the last questions.
    weighing: Arc<Semaphore>,
    /// Simulations that somebody asks for.
    pub(crate) simulations: Simulations,
    /// `None` if runs may not be shared.
    pub(crate) shares: Option<Arc<Shares>>,
}

/// The two phases of a shutdown.
#[derive(Clone, Default)]
pub(crate) struct Phases {
    /// New questions are refused.
    pub(crate) closing: CancellationToken,
    /// Open questions end with an error.
    pub(crate) closed: CancellationToken,
}

impl ServerState {
    pub(crate) fn new(config: Config, toolbox: Toolbox, phases: Phases) -> Arc<Self> {
        let tunings = Tunings::new(config.scheduler.tuner, config.scheduler.history);
        let tunings = Arc::new(tunings);
        let room = room(&config);
        let places = Places::new(room);
        let reloads = Reloads::new();
        let (backends, cores) = (toolbox.backends.clone(), toolbox.cores.clone());
        let metrics = Metrics::new(backends, cores).watching(
            places.clone(),
            Arc::clone(&tunings),
            toolbox.load_gauge(),
        );
        let (left, meters) = (toolbox.tool_cache.clone(), metrics.audits.clone());
        let audits = Arc::new(Audits::new(config.audit, left, meters));
        let mut metrics = metrics.auditing(Arc::clone(&audits));
        let told = Box::new(Told(Arc::clone(&reloads)));
        metrics.registry.register_collector(told);
        let cells = config.shared.as_ref().and_then(cells);
        let shared = cells.clone().map(|cells| {
            let counts = metrics.shared_accounts.clone();
            Arc::new(Shared::new(cells, counts))
        });
        let drafts = toolbox.drafter.clone().zip(cells);
        let drafts = drafts.map(|(drafter, cells)| SharedDrafts::new(drafter, cells));
        let accounts = config.allowance;
        let accounts = accounts.map(|allowance| Accounts::new(allowance, shared.clone()));
        Arc::new(Self {
            audits,
            speculators: toolbox.speculators(config.speculator.default),
            places,
            retrievals: Places::new(room.without_line()),
            vectors: Places::new(room.without_line()),
            tunings,
            spans: Spans::new(config.otlp.as_ref(), metrics.spans.clone()),
            metrics,
            reloads,
            accounts: accounts.map_or_else(OnceLock::new, OnceLock::from),
            shared,
            shared_drafts: drafts,
            questions: Questions::new(config.server.kept, config.server.kept_bytes_max),
            phases,
            warnings: Sparingly::default(),
            weighing: Arc::new(Semaphore::new(1)),
            simulations: Simulations::new(),
            shares: config.server.share.map(Shares::new).map(Arc::new),
            config: RwLock::new(Arc::new(config)),
            toolbox,
        })
    }

    /// The configuration that counts now. A question takes what it needs when it is admitted.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read())
    }

    /// From now on this configuration counts. Only keys that the table calls live may differ.
    pub(crate) fn reconfigure(&self, config: Config) {
        if let Some(allowance) = config.allowance {
            let new = || Accounts::new(allowance, self.shared.clone());
            self.accounts.get_or_init(new).change(allowance);
        }
        self.replace_config(|_| config);
    }

    /// From now on several tenants may ask, or one.
    pub(crate) fn share_places(&self, several: bool) {
        self.replace_config(|now| {
            let mut config = now.clone();
            config.callers.are_several = several;
            config
        });
    }

    fn replace_config(&self, new: impl FnOnce(&Config) -> Config) {
        let mut now = self.config.write();
        *now = Arc::new(new(&now));
        // As long as nobody else replaces it.
        let room = room(&now);
        self.places.resize(room);
        self.retrievals.resize(room.without_line());
        self.vectors.resize(room.without_line());
    }

    /// Those that questions are held against; `None` if nothing is limited now.
    fn limiting_accounts(&self) -> Option<&Arc<Accounts>> {
        let is_limited = self.config().allowance.is_some();
        self.accounts.get().filter(|_| is_limited)
    }

    /// Has other servers know what tenants have spent here, for as long as it is polled.
    pub(crate) async fn keep_accounts(&self) -> Infallible {
        match &self.shared {
            Some(shared) => shared.keep(|| self.accounts.get().cloned()).await,
            None => pending().await,
        }
    }

    /// Has other servers know everything that tenants have spent here.
    pub(crate) async fn save_accounts(&self) {
        if let Some(accounts) = self.accounts.get() {
            accounts.save().await;
        }
    }

    /// Questions that have a place: they are being answered, or their streams being read.
    pub(crate) fn questions_open(&self) -> usize {
        self.places.taken()
    }

    /// Questions that wait in line for a place.
    pub(crate) fn questions_waiting(&self) -> usize {
        self.places.waiting()
    }

    /// Waits until no question is being answered, and nothing else is being found.
    pub(crate) async fn idle(&self) {
        tokio::join!(
            self.places.free(),
            self.retrievals.free(),
            self.vectors.free(),
        );
    }

    /// Sets aside what a question may cost, if tenants have accounts, and narrows its budget to that.
    pub(crate) async fn hold(&self, settings: &mut Settings) -> Result<Option<Hold>, AskError> {
        let Some(accounts) = self.limiting_accounts() else {
            return Ok(None);
        };
        let tenant = &settings.tenant;
        let held = accounts.hold(tenant, settings.budget).await;
        let (hold, budget) = held.map_err(|shortage| AskError::Overdrawn {
            tenant: tenant.clone(),
            shortage,
        })?;
        settings.budget = budget;
        Ok(Some(hold))
    }

    /// Sets aside look-ups that belong to no question, if tenants have accounts. Says how many
    /// of them it has left.
    pub(crate) async fn hold_look_ups(
        &self,
        tenant: &Tenant,
        look_ups: u32,
    ) -> Result<Option<(Hold, u32)>, AskError> {
        let Some(accounts) = self.limiting_accounts() else {
            return Ok(None);
        };
        let overdrawn = |shortage| AskError::Overdrawn {
            tenant: tenant.clone(),
            shortage,
        };
        let only_calls = Budget {
            time: Some(Duration::ZERO),
            target_calls: Some(look_ups),
            tokens: Some(0),
            money: Some(Money(0)),
        };
        let held = accounts.hold(tenant, only_calls).await;
        let (hold, granted) = held.map_err(overdrawn)?;
        Ok(Some((hold, granted.target_calls.unwrap_or(look_ups))))
    }

    /// Writes an error to the log where it leaves. A client can cause most of them at will, so that of
    /// each kind only a line in a while is a warning.
    pub(crate) fn refuse(&self, error: &AskError) {
        let reason = with_causes(error);
        let warning = match error {
            AskError::Invalid(_)
            | AskError::NotOpen(_)
            | AskError::NoModel { .. }
            | AskError::NoPassage { .. }
            | AskError::NotNow(_)
            | AskError::TooOld { .. }
            | AskError::Cancelled
            | AskError::Alone { .. } => None,
            AskError::Busy { .. }
            | AskError::TenantBusy { .. }
            | AskError::TooManyReaders { .. }
            | AskError::SharesFull { .. }
            | AskError::Overdrawn { .. }
            | AskError::Unread { .. }
            | AskError::ShuttingDown
            | AskError::Lost
            | AskError::Port(_)
            | AskError::Agent(_) => self.warnings.turn(error.outcome().into_str()),
        };
        match warning {
            Some(left_out) => tracing::warn!(reason, left_out, "no answer"),
            None => tracing::debug!(reason, "no answer"),
        }
    }

    /// Every few questions it is asked anew which setting is the best, beside the answers. One at a time,
    /// since it computes; if it is left out, the next question asks again.
    pub(crate) fn weigh(self: &Arc<Self>, tuning: TuningOf) {
        let free = self.config().questions.free();
        if free == Free::default() || !self.tunings.is_weighing_due(&tuning) {
            return;
        }
        let Ok(turn) = Arc::clone(&self.weighing).try_acquire_owned() else {
            return;
        };
        let state = Arc::clone(self);
        // It ends by itself, after a fraction of a second.
        drop(spawn_blocking(move || {
            let _turn = turn;
            let config = state.config();
            let questions = &config.questions;
            let orphan_ms = ms(questions.salvage_time);
            let policy = questions.simulated(&questions.usual);
            state.tunings.weigh(&tuning, free, policy, orphan_ms);
        }));
    }

    /// For a reader that has taken nothing for too long.
    pub(crate) fn unread(&self) -> AskError {
        AskError::Unread {
            limit: self.config().server.unread,
        }
    }
}

/// What lies there. Connects when it is first asked.
fn cells(options: &RedisOptions) -> Option<Arc<dyn SharedCells>> {
    if options.shows_password() {
        tracing::warn!(
            "the password of tenant.redis crosses the network in the clear: with rediss:// there is TLS"
        );
    }
    match RedisCells::new(options) {
        Ok(cells) => Some(Arc::new(cells)),
        Err(error) => {
            let reason = with_causes(&error);
            tracing::error!(reason, "nothing is shared with other servers");
            None
        }
    }
}

/// Room for questions.
fn room(config: &Config) -> Room {
    let server = &config.server;
    Room {
        most: server.questions_max,
        of_one: config.callers.questions_max(server.questions_max),
        line_max: match server.queue.is_zero() {
            true => 0,
            false => server.queue_max,
        },
    }
}

#[cfg(test)]
pub(crate) mod scripted;
