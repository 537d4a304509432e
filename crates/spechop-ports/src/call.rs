//! The circumstances of a call: is it needed, or might it be? And for whom?

mod again;
mod life;
mod seat;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use spechop_types::{
    Activities, Activity, Chance, Owned, ProviderChange, Refusal, Tenant, Tokens, TraceContext,
};

use crate::Urgency;
use crate::clock::{Clock, Doing};
use crate::meter::Meter;

pub use self::again::BackInLine;
pub use self::life::{BranchFate, Life, WeakLife};
pub use self::seat::Seat;

/// Who needs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The answer may need it, if the guesses before it hold.
    Speculative,
    /// The answer needs it.
    Authoritative,
}

/// How far a call has come with whoever gives the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// It has not been anywhere that gives turns.
    New,
    /// It is in line, and nothing of it has had a turn.
    Queued,
    /// Some of it has had its turn, if perhaps not all.
    Begun,
}

/// What a question wishes of every call that is made for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wishes {
    /// No kept result may serve it: a cache of results is passed by, and may be filled anew.
    pub fresh: bool,
    /// No provider may learn ahead of need what may be asked next.
    pub quiet: bool,
}

/// Most changes of provider that a call keeps. More are of no use to anybody.
const CHANGES_MAX: usize = 16;

/// Passed along with every call, by reference; clones share the lane and the seat.
///
/// A call that waits for a turn is asked for its [`Call::lane`] each time a turn is given away, or
/// [takes a seat](Call::sit) to hear of its promotion.
#[derive(Clone)]
pub struct Call {
    shared: Arc<Shared>,
    chance: Chance,
    wishes: Wishes,
    has_one_turn: bool,
    /// The span of a trace that it is.
    trace: Option<Arc<TraceContext>>,
    life: Option<Life>,
    fate: Option<BranchFate>,
}

struct Shared {
    authoritative: AtomicBool,
    progress: AtomicU8,
    /// How many turns it has lost that it is in line for again: hardly more than one.
    back_in_line: AtomicU32,
    was_kept: AtomicBool,
    tenant: Tenant,
    seat: Mutex<Option<Weak<dyn Seat>>>,
    meter: Meter,
    clock: Clock,
    /// The call whose time its work takes, if that is another one.
    timed_with: Option<Call>,
    changes: Mutex<Vec<ProviderChange>>,
    /// The call that it is a part of.
    whole: Option<Call>,
    parts: Mutex<Vec<Weak<Shared>>>,
}

impl Shared {
    fn new(tenant: Tenant, lane: Lane, whole: Option<Call>) -> Self {
        Self {
            authoritative: AtomicBool::new(lane == Lane::Authoritative),
            progress: AtomicU8::new(Progress::New as u8),
            back_in_line: AtomicU32::new(0),
            was_kept: AtomicBool::new(false),
            tenant,
            seat: Mutex::new(None),
            meter: Meter::default(),
            clock: Clock::default(),
            timed_with: None,
            changes: Mutex::default(),
            whole,
            parts: Mutex::default(),
        }
    }

    fn progress(&self) -> Progress {
        let own = match self.progress.load(Relaxed) {
            new if new == Progress::New as u8 => Progress::New,
            queued if queued == Progress::Queued as u8 => Progress::Queued,
            // Nothing is further.
            _ => return Progress::Begun,
        };
        let (seat, parts) = (self.seat(), self.parts());
        let of_seat = seat.map(|seat| seat.progress());
        let of_parts = parts.iter().map(|part| part.progress());
        of_parts.chain(of_seat).fold(own, Progress::max)
    }

    /// Of one without a seat, what the first part lacks that waits.
    fn lacks(&self) -> Refusal {
        if let Some(seat) = self.seat() {
            return seat.lacks();
        }
        let mut parts = self.parts().into_iter();
        let waiting = parts.find(|part| part.progress() == Progress::Queued);
        waiting.map_or(Refusal::NoPlace, |part| part.lacks())
    }

    /// It is told and asked outside the lock: it may well look at the call.
    fn seat(&self) -> Option<Arc<dyn Seat>> {
        self.seat.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Those that are there, outside the lock as well.
    fn parts(&self) -> Vec<Arc<Self>> {
        self.parts.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Call {
    /// A call in the given lane, for nobody in particular.
    pub fn new(lane: Lane, chance: Chance) -> Self {
        Self::of(Tenant::default(), lane, chance)
    }

    /// A call for a tenant. `chance` is how likely its result is to be used.
    pub fn of(tenant: Tenant, lane: Lane, chance: Chance) -> Self {
        Self {
            shared: Arc::new(Shared::new(tenant, lane, None)),
            chance,
            wishes: Wishes::default(),
            has_one_turn: false,
            trace: None,
            life: None,
            fate: None,
        }
    }

    /// The same call with these wishes.
    #[must_use]
    pub fn with(self, wishes: Wishes) -> Self {
        Self { wishes, ..self }
    }

    /// The same call, which is not taken up again if it loses its turn: its caller counts what each turn may
    /// cost, or has others to turn to.
    #[must_use]
    pub fn with_one_turn(self) -> Self {
        Self {
            has_one_turn: true,
            ..self
        }
    }

    /// Whether it is not taken up again if it loses its turn.
    pub fn has_one_turn(&self) -> bool {
        self.has_one_turn
    }

    /// The same call as this span of a trace.
    #[must_use]
    pub fn traced(self, trace: Option<TraceContext>) -> Self {
        let trace = trace.map(Arc::new);
        Self { trace, ..self }
    }

    /// The same call, which holds this for as long as it or a part of it is there.
    #[must_use]
    pub fn within(self, life: Life) -> Self {
        let life = Some(life);
        Self { life, ..self }
    }

    /// The same call, made for a branch that this becomes of.
    #[must_use]
    pub fn for_branch(self, fate: BranchFate) -> Self {
        let fate = Some(fate);
        Self { fate, ..self }
    }

    /// The headers that tell a service for which span of which trace it works, names in lower case.
    /// Whoever asks a service on behalf of the call sends them along. None if it belongs to no trace.
    pub fn trace_headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.trace.iter().flat_map(|trace| trace.headers())
    }

    /// A call of its own for the same tenant and with the same wishes, in the lane of now: for work that
    /// several calls share. What it spends its time on is told of this one, too. It holds no life.
    #[must_use]
    pub fn detached(&self) -> Self {
        let mut shared = Shared::new(self.tenant().clone(), self.lane(), None);
        // Others may need it when the question of this one is over.
        shared.timed_with = Some(Self {
            life: None,
            ..self.clone()
        });
        Self {
            shared: Arc::new(shared),
            chance: self.chance,
            wishes: self.wishes,
            has_one_turn: self.has_one_turn,
            trace: self.trace.clone(),
            life: None,
            // Nor has it a branch.
            fate: None,
        }
    }

    /// A part of this call, for who makes several at the same time: each part takes seats of its own. It is
    /// promoted with the whole. The whole is as far as its furthest part, and takes what they take.
    #[must_use]
    pub fn sub_call(&self) -> Self {
        let whole = Some(self.clone());
        let shared = Shared::new(self.tenant().clone(), self.lane(), whole);
        let part = Self {
            shared: Arc::new(shared),
            chance: self.chance,
            wishes: self.wishes,
            has_one_turn: self.has_one_turn,
            trace: self.trace.clone(),
            life: self.life.clone(),
            fate: self.fate.clone(),
        };
        let mut parts = self.shared.parts.lock();
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(&part.shared));
        drop(parts);
        // A promotion before it was on the list was told to nobody.
        if self.lane() == Lane::Authoritative {
            part.promote();
        }
        part
    }

    /// The same, of which this is how likely its result is to be used.
    #[must_use]
    pub fn of_chance(self, chance: Chance) -> Self {
        Self { chance, ..self }
    }

    /// A call that the answer needs.
    pub fn authoritative() -> Self {
        Self::new(Lane::Authoritative, Chance::CERTAIN)
    }

    /// The lane, as of now.
    pub fn lane(&self) -> Lane {
        if self.shared.authoritative.load(Relaxed) {
            Lane::Authoritative
        } else {
            Lane::Speculative
        }
    }

    /// How likely its result was to be used when it was made.
    pub fn chance(&self) -> Chance {
        self.chance
    }

    /// Its place among calls that wait for the same thing, as of now. `arrival` numbers the calls
    /// of that queue in the order in which they came.
    pub fn urgency(&self, arrival: u64) -> Urgency {
        Urgency::new(self.lane(), self.chance, arrival)
    }

    /// On whose behalf it is made.
    pub fn tenant(&self) -> &Tenant {
        &self.shared.tenant
    }

    /// What its question wishes.
    pub fn wishes(&self) -> Wishes {
        self.wishes
    }

    /// What it holds for as long as its question is worked for: the same thing for all calls of a question. The call
    /// of a shared run has another one, which lasts as long as those of whoever waits.
    pub fn life(&self) -> Option<&Life> {
        self.life.as_ref()
    }

    /// What becomes of the branch that it is made for; `None` if it is made for none.
    pub fn fate(&self) -> Option<&BranchFate> {
        self.fate.as_ref()
    }

    /// Whether kept results may not serve it.
    pub fn is_fresh(&self) -> bool {
        self.wishes.fresh
    }

    /// A kept result served it, or a part of it.
    pub fn serve_kept(&self) {
        self.shared.was_kept.store(true, Relaxed);
        if let Some(whole) = &self.shared.whole {
            whole.serve_kept();
        }
    }

    /// Whether a kept result served it, or a part of it.
    pub fn was_kept(&self) -> bool {
        self.shared.was_kept.load(Relaxed)
    }

    /// Whether no provider may learn ahead of need what may be asked next.
    pub fn is_quiet(&self) -> bool {
        self.wishes.quiet
    }

    /// A search of it went to another provider.
    pub fn changed_provider(&self, change: ProviderChange) {
        if let Some(whole) = &self.shared.whole {
            return whole.changed_provider(change);
        }
        let mut changes = self.shared.changes.lock();
        if changes.len() < CHANGES_MAX && !changes.contains(&change) {
            changes.push(change);
        }
    }

    /// The changes of provider so far, each once.
    pub fn provider_changes(&self) -> Vec<ProviderChange> {
        match &self.shared.whole {
            Some(whole) => whole.provider_changes(),
            None => self.shared.changes.lock().clone(),
        }
    }

    /// What the call leaves behind, or looks for, belongs to its tenant.
    pub fn owned<T>(&self, item: T) -> Owned<T> {
        Owned::new(self.tenant(), item)
    }

    /// Tokens that it has taken so far, as far as its engines have [told](crate::Metered): of a call that
    /// is dropped or fails, all that is known. Attempts that failed are in it; what an engine tells only
    /// with its result is not.
    pub fn spent(&self) -> Tokens {
        self.meter().read()
    }

    /// A part has its whole's.
    pub(crate) fn meter(&self) -> &Meter {
        match &self.shared.whole {
            Some(whole) => whole.meter(),
            None => &self.shared.meter,
        }
    }

    /// The call is busy with this, or waits for it, until the result is dropped. Cheap enough for every
    /// token: it takes a lock that hardly anybody else wants, and allocates nothing.
    pub fn doing(&self, activity: Activity) -> Doing {
        Doing::new(self, activity)
    }

    /// What it has spent its time on until now, as far as those who work for it have
    /// [told](Call::doing).
    pub fn activities(&self) -> Activities {
        self.clock().read()
    }

    /// A part has its whole's.
    pub(crate) fn clock(&self) -> &Clock {
        match self
            .shared
            .whole
            .as_ref()
            .or(self.shared.timed_with.as_ref())
        {
            Some(call) => call.clock(),
            None => &self.shared.clock,
        }
    }

    /// How far it has come: by itself, with the run that it [shares](Call::share), or with a part of it.
    pub fn progress(&self) -> Progress {
        self.shared.progress()
    }

    /// Whoever gives the turns says how far it has come. It never goes back.
    pub fn advance(&self, to: Progress) {
        self.shared.progress.fetch_max(to as u8, Relaxed);
        if let Some(whole) = &self.shared.whole {
            whole.advance(to);
        }
    }

    /// What it stands on has been verified. There is no way back.
    pub fn promote(&self) {
        if self.shared.authoritative.swap(true, Relaxed) {
            return;
        }
        if let Some(seat) = self.shared.seat() {
            seat.promoted();
        }
        // They stay its parts: it is as far as the furthest of them.
        for shared in self.shared.parts() {
            Self {
                shared,
                ..self.clone()
            }
            .promote();
        }
    }

    /// The thing that it was sent to asked for less.
    pub fn push_back(&self) {
        if let Some(seat) = self.shared.seat() {
            seat.pushed_back();
        }
    }

    /// If it waits for a turn and may be wasted, or a part of it does: what it has no turn for.
    pub fn lacks(&self) -> Refusal {
        self.shared.lacks()
    }

    /// From now on `seat` hears of it, and nobody else. What happened before is not told again: ask
    /// for the lane behind this.
    pub fn sit(&self, seat: Weak<dyn Seat>) {
        *self.shared.seat.lock() = Some(seat);
    }

    /// From now on `run` hears of it, for as long as somebody holds that: the call of a run that several
    /// share. It is authoritative as soon as one of them is.
    pub fn share(&self, run: &Arc<Self>) {
        let seat: Weak<Self> = Arc::downgrade(run);
        self.sit(seat);
        // A promotion before it sat was told to nobody.
        if self.lane() == Lane::Authoritative {
            run.promote();
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("lane", &self.lane())
            .field("chance", &self.chance)
            .field("tenant", &self.shared.tenant)
            .field("wishes", &self.wishes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
