//! The backends: which one schedules the calls of which port.
//!
//! Ports that share a model share its backend: a generator that also reads and guesses is one backend.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use spechop_config::{Config, Model, Scheduler, Target};
use spechop_embed::{Room, Space};
use spechop_ports::{
    Call, DraftWriter, Encoded, Encoder, Planner, PortError, Reader, Retriever, Rewriter,
    SearchProvider, Speculator, TextKind,
};
use spechop_sched::{
    Backend, Cores, Demand, Eligibility, Grade, Idempotence, Kind, Limits, Millicores, Rule,
    Scheduled, ScheduledRetriever,
};

use crate::chaos::Upset;
use crate::cores;

/// Makes backends as they are asked for, and puts them in front of ports.
pub(crate) struct Backends {
    limits: Scheduler,
    upset: Upset,
    opened: Vec<Backend>,
    target: LookUp,
    /// The kind of segments.
    segment: Kind,
    on: Option<Machine>,
}

/// What computes on the cores of this machine, and on how many of them.
struct Machine {
    cores: Cores,
    generator: Option<Demand>,
    reader: Option<Demand>,
    retriever: Option<Demand>,
    encoder: Option<Demand>,
    speculator: Option<Demand>,
}

impl Machine {
    fn of(config: &Config) -> Self {
        // Slowed on purpose, a search waits most of its time, and a core that waits is idle.
        let waits = config.injected_latency.is_some() && matches!(config.target, Target::Index);
        Self {
            cores: cores::of(config),
            generator: cores::of_model(&config.generator),
            reader: cores::of_reader(&config.reader),
            retriever: (!waits).then(|| cores::of_index(&config.encoder)),
            encoder: cores::of_encoder(&config.encoder),
            speculator: cores::of_reader(&config.speculator.model),
        }
    }
}

/// The rules and the kinds of the two calls of a look-up.
#[derive(Clone)]
pub(crate) struct LookUp {
    retrieval: (Rule, Kind),
    reading: (Rule, Kind),
}

impl LookUp {
    /// Nothing is retrieved before an answer needs it, whatever the policy says.
    pub(crate) fn only_when_needed(&mut self) {
        self.retrieval.0 = Rule::DENY;
    }
}

impl Backends {
    /// For the models and indexes of the configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            on: Some(Machine::of(config)),
            ..Self::elsewhere(config)
        }
    }

    /// For ports of which nobody knows where they compute.
    pub(crate) fn elsewhere(config: &Config) -> Self {
        let limits = config.scheduler.clone();
        let (retriever, reader) = look_up_rules(&limits.eligibility);
        Self {
            target: LookUp {
                retrieval: (retriever, Kind::default()),
                reading: (reader, Kind::default()),
            },
            segment: Kind::default(),
            limits,
            upset: Upset::of(config.chaos.as_ref()),
            opened: Vec::new(),
            on: None,
        }
    }

    /// The target call: the trusted look-up.
    pub(crate) fn target(&self) -> LookUp {
        self.target.clone()
    }

    /// The look-up of a speculator that guesses by one, each such speculator's own.
    pub(crate) fn guess(&self) -> LookUp {
        let (retriever, reader) = look_up_rules(self.policy());
        let speculator = self.policy().of("speculator");
        let [retrieval, reading] = Kind::guess(&self.target_kinds());
        LookUp {
            retrieval: (retriever.as_part_of(speculator), retrieval),
            reading: (reader.as_part_of(speculator), reading),
        }
    }

    /// `threads_alone` are those that an opened model in this process has for a call that is alone.
    pub(crate) fn generator(&mut self, threads_alone: Option<u32>) -> Backend {
        let demand = self.on.as_ref().and_then(|on| on.generator);
        let demand = cores::of_opened(demand, threads_alone);
        self.backend("generator", self.limits.generator, demand)
    }

    pub(crate) fn reader(&mut self, threads_alone: Option<u32>) -> Backend {
        let demand = self.on.as_ref().and_then(|on| on.reader);
        let demand = cores::of_opened(demand, threads_alone);
        self.backend("reader", self.limits.reader, demand)
    }

    pub(crate) fn speculator(&mut self, threads_alone: Option<u32>) -> Backend {
        let demand = self.on.as_ref().and_then(|on| on.speculator);
        let demand = cores::of_opened(demand, threads_alone);
        self.backend("speculator", self.limits.speculator, demand)
    }

    /// The second choice takes what its own engine takes.
    pub(crate) fn fallback(&mut self, model: &Model, threads_alone: Option<u32>) -> Backend {
        let limits = spechop_config::lanes_of(model);
        let demand = cores::of_opened(cores::of_model(model), threads_alone);
        self.backend("fallback", limits, demand)
    }

    /// So does a model that does nothing but draft.
    pub(crate) fn drafter(&mut self, model: &Model, threads_alone: Option<u32>) -> Backend {
        let limits = spechop_config::lanes_of(model);
        let demand = cores::of_opened(cores::of_model(model), threads_alone);
        self.backend("drafter", limits, demand)
    }

    /// The index and its hot subset share the encoder.
    pub(crate) fn retrieves(
        &mut self,
        inner: Arc<dyn Retriever>,
        of: &LookUp,
    ) -> Arc<ScheduledRetriever> {
        let backend = self.index();
        Self::retrieving(self.upset.retriever(inner), &backend, of)
    }

    pub(crate) fn index(&mut self) -> Backend {
        let demand = self.on.as_ref().and_then(|on| on.retriever);
        self.backend("retriever", self.limits.retriever, demand)
    }

    /// A retriever that shares nothing with the index.
    pub(crate) fn retrieves_at(
        &mut self,
        name: &str,
        limits: Limits,
        inner: Arc<dyn Retriever>,
        of: &LookUp,
    ) -> Arc<ScheduledRetriever> {
        let backend = self.backend(name, limits, None);
        Self::retrieving(self.upset.retriever(inner), &backend, of)
    }

    fn retrieving(
        inner: Arc<dyn Retriever>,
        backend: &Backend,
        of: &LookUp,
    ) -> Arc<ScheduledRetriever> {
        let (rule, kind) = &of.retrieval;
        let backend = backend.of_kind(kind.clone());
        Arc::new(ScheduledRetriever::new(inner, &backend, *rule))
    }

    /// Searches take their turns within the turns of look-ups: each provider has a pace of its own.
    pub(crate) fn searches(
        &mut self,
        inner: Arc<dyn SearchProvider>,
        limits: Limits,
        of: &LookUp,
    ) -> Arc<dyn SearchProvider> {
        let (rule, _) = &of.retrieval;
        let backend = self.backend(inner.name(), limits, None);
        let backend = backend.of_kind(Kind::default());
        Arc::new(Scheduled::new(inner, &backend, *rule))
    }

    /// Passages that were found elsewhere are ranked here, within the turns of look-ups: ahead of need, on
    /// idle cores only. There is a place for each look-up.
    pub(crate) fn ranks(&mut self, inner: Arc<dyn Encoder>, of: &LookUp) -> Arc<dyn Encoder> {
        let (rule, _) = &of.retrieval;
        let backend = self.ranking().of_kind(Kind::default());
        Arc::new(Scheduled::new(inner, &backend, *rule))
    }

    pub(crate) fn ranking(&mut self) -> Backend {
        let demand = self.on.as_ref().and_then(|on| on.encoder);
        let limits = Limits {
            // The pace is that of the look-ups.
            rate: None,
            ..self.limits.web
        };
        self.backend("ranking", limits, demand)
    }

    /// The same retrievals as parts of another look-up: what both ask at the same time is retrieved once.
    pub(crate) fn shares(
        &mut self,
        other: &ScheduledRetriever,
        of: &LookUp,
    ) -> Arc<ScheduledRetriever> {
        let (rule, kind) = &of.retrieval;
        let backend = self.index().of_kind(kind.clone());
        Arc::new(other.sharing(&backend, *rule))
    }

    pub(crate) fn plans(&self, inner: Arc<dyn Planner>, backend: &Backend) -> Arc<dyn Planner> {
        let rule = self.policy().of("planner");
        let backend = backend.of_kind(self.segment.clone());
        let inner = self.upset.planner(inner);
        Arc::new(Scheduled::new(inner, &backend, rule))
    }

    pub(crate) fn reads(
        &self,
        inner: Arc<dyn Reader>,
        backend: &Backend,
        of: &LookUp,
    ) -> Arc<dyn Reader> {
        let (rule, kind) = &of.reading;
        let backend = backend.of_kind(kind.clone());
        let inner = self.upset.reader(inner);
        Arc::new(Scheduled::new(inner, &backend, *rule))
    }

    /// Schedules speculators whose calls do the same work.
    pub(crate) fn speculates(
        &self,
        backend: &Backend,
    ) -> impl Fn(Arc<dyn Speculator>) -> Arc<dyn Speculator> {
        let rule = self.policy().of("speculator");
        let [guess] = Kind::guess(&self.target_kinds());
        let backend = backend.of_kind(guess);
        move |inner| {
            let inner = self.upset.speculator(inner);
            Arc::new(Scheduled::new(inner, &backend, rule))
        }
    }

    /// A draft is a guess, too: of what a segment brings.
    pub(crate) fn drafts(
        &self,
        inner: Arc<dyn DraftWriter>,
        backend: &Backend,
    ) -> Arc<dyn DraftWriter> {
        let rule = self.policy().of("speculator");
        let [draft] = Kind::guess(std::slice::from_ref(&self.segment));
        let backend = backend.of_kind(draft);
        let inner = self.upset.draft_writer(inner);
        Arc::new(Scheduled::new(inner, &backend, rule))
    }

    /// The encoder for clients that ask for vectors: its calls compute where look-ups do.
    pub(crate) fn encodes(&mut self, inner: Arc<dyn Encoder>) -> Arc<dyn Encoder> {
        let rule = self.policy().of("retriever");
        let backend = self.index().of_kind(Kind::default());
        Arc::new(Scheduled::new(inner, &backend, rule))
    }

    /// An encoder that runs elsewhere and takes so many calls at once, whoever asks: the index, its hot subset, the
    /// web, the memory and clients. Those have turns of their own, which decide what is asked ahead of need.
    pub(crate) fn encodes_elsewhere(
        &mut self,
        inner: Arc<dyn Encoder>,
        at_once: NonZeroUsize,
    ) -> Arc<dyn Encoder> {
        let limits = Limits {
            capacity: at_once,
            rate: None,
            speculative_max: at_once.get(),
        };
        let backend = self.backend("encoder", limits, None);
        let rule = Rule {
            grade: Grade::Full,
            idempotence: Idempotence::Safe,
            cost: 1.0,
        };
        Arc::new(InParts(Scheduled::new(inner, &backend, rule)))
    }

    /// What makes questions of conversations stand alone, before they are answered.
    pub(crate) fn rewrites(
        &self,
        inner: Arc<dyn Rewriter>,
        backend: &Backend,
    ) -> Arc<dyn Rewriter> {
        let rule = self.policy().of("planner");
        let backend = backend.of_kind(Kind::default());
        let inner = self.upset.rewriter(inner);
        Arc::new(Scheduled::new(inner, &backend, rule))
    }

    /// What the cores are doing; `None` if nobody counts them.
    pub(crate) fn room(&self) -> Option<Room> {
        let cores = self.on.as_ref()?.cores.clone();
        Some(Room::new(move || {
            let (there, taken) = (cores.count(), cores.taken());
            Space {
                idle: (cores.idle().0 / Millicores::ONE.0) as usize,
                is_crowded: taken.needed > there,
            }
        }))
    }

    /// Every backend that was asked for, and the cores that some of them compute on.
    pub(crate) fn opened(self) -> (Vec<Backend>, Option<Cores>) {
        (self.opened, self.on.map(|on| on.cores))
    }

    fn target_kinds(&self) -> [Kind; 2] {
        let LookUp { retrieval, reading } = &self.target;
        [retrieval.1.clone(), reading.1.clone()]
    }

    fn policy(&self) -> &Eligibility {
        &self.limits.eligibility
    }

    fn backend(&mut self, name: &str, limits: Limits, demand: Option<Demand>) -> Backend {
        if let Some(known) = self.opened.iter().find(|backend| backend.name() == name) {
            return known.clone();
        }
        let backend = match (&self.on, demand) {
            (Some(on), Some(demand)) => Backend::on(&on.cores, demand, name, limits),
            _ => Backend::new(name, limits),
        };
        self.opened.push(backend.clone());
        backend
    }
}

/// An encoder whose turns are taken within others: a call has one seat, so parts of it take these.
struct InParts(Scheduled<dyn Encoder>);

#[async_trait]
impl Encoder for InParts {
    fn fingerprint(&self) -> &str {
        self.0.fingerprint()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    async fn encode_query(&self, call: &Call, text: &str) -> Result<Vec<f32>, PortError> {
        self.0.encode_query(&call.sub_call(), text).await
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        self.0.encode(&call.sub_call(), kind, texts).await
    }
}

/// What is retrieved is read, or it was retrieved in vain.
fn look_up_rules(policy: &Eligibility) -> (Rule, Rule) {
    let reader = policy.of("reader");
    (policy.of("retriever").followed_by(reader), reader)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use futures::future::join_all;
    use parking_lot::Mutex;
    use spechop_ports::Lane;
    use spechop_testkit::{Script, ScriptedPorts, TextVectors};
    use spechop_types::{Chance, Refusal};

    use super::*;
    use crate::server_state::scripted::state;

    /// Notes in which lanes it was asked, and how often at once at most.
    #[derive(Default)]
    struct Noting {
        lanes: Mutex<Vec<Lane>>,
        now: AtomicUsize,
        most: AtomicUsize,
    }

    #[async_trait]
    impl Encoder for Noting {
        fn fingerprint(&self) -> &'static str {
            "noting"
        }

        fn width(&self) -> usize {
            1
        }

        async fn encode(
            &self,
            call: &Call,
            kind: TextKind,
            texts: Vec<String>,
        ) -> Result<Encoded, PortError> {
            self.lanes.lock().push(call.lane());
            let now = self.now.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(now, SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.now.fetch_sub(1, SeqCst);
            TextVectors::alike().encode(call, kind, texts).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_encoder_elsewhere_gets_as_much_at_once_as_it_takes_and_the_needed_first() {
        use Lane::{Authoritative, Speculative};

        let (state, _) = state(Script::instant(1), "");
        let mut backends = Backends::elsewhere(&state.config());
        let noting = Arc::new(Noting::default());
        let encoder = backends.encodes_elsewhere(noting.clone(), NonZeroUsize::MIN);
        let lanes = [Authoritative, Speculative, Authoritative, Authoritative];
        let calls = lanes.map(|lane| Call::new(lane, Chance::EVEN));
        let asked = calls.iter().map(|call| encoder.encode_query(call, "q"));
        assert!(join_all(asked).await.iter().all(Result::is_ok));
        assert_eq!(noting.most.load(SeqCst), 1);
        let needed_first = [Authoritative, Authoritative, Authoritative, Speculative];
        assert_eq!(*noting.lanes.lock(), needed_first);

        // It hears what becomes of a call that has its place elsewhere.
        let (needed, guess) = (&calls[0], Call::new(Speculative, Chance::EVEN));
        let becomes_needed = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            guess.promote();
        };
        let (_, promoted, ()) = tokio::join!(
            encoder.encode_query(needed, "q"),
            encoder.encode_query(&guess, "q"),
            becomes_needed,
        );
        assert!(promoted.is_ok());
        assert_eq!(noting.lanes.lock()[4..], [Authoritative, Authoritative]);
    }

    #[tokio::test]
    async fn what_may_have_effects_is_retrieved_only_when_needed() {
        let rules = look_up_rules(&Eligibility::shipped());
        let (retrieval, reading) = rules;
        let mut look_up = LookUp {
            retrieval: (retrieval, Kind::default()),
            reading: (reading, Kind::default()),
        };
        let limits = Limits {
            capacity: NonZeroUsize::MIN,
            rate: None,
            speculative_max: 1,
        };
        let backend = Backend::new("mcp", limits);
        let inner = || Arc::new(ScriptedPorts::new(Script::instant(1)));
        let ahead = || Call::new(Lane::Speculative, Chance::EVEN);
        let free = Backends::retrieving(inner(), &backend, &look_up);
        assert!(free.retrieve(&ahead(), "q", 1).await.is_ok());
        look_up.only_when_needed();
        let bound = Backends::retrieving(inner(), &backend, &look_up);
        let refused = bound.retrieve(&ahead(), "q", 1).await.unwrap_err();
        assert!(
            matches!(
                refused,
                PortError::NotSpeculated {
                    why: Refusal::Denied,
                    ..
                }
            ),
            "{refused}"
        );
        assert!(bound.retrieve(&Call::authoritative(), "q", 1).await.is_ok());
    }
}
