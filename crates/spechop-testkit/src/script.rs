//! A world in which every call's result, time and failures are written down beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spechop_ports::{
    Call, DraftRequest, DraftWriter, Drafter, Guess, GuessRequest, Guessed, KnownHop, PlanRequest,
    Planned, Planner, PortError, ReadRequest, Reader, Reading, Retriever, Speculator, WrittenDraft,
};
use spechop_types::{Activity, Chance, Draft, Passage, Stage, Step, SubQuestion, Tokens};

/// One hop of the script. Its sub-question is `ask` followed by the answers it depends on, so that a
/// wrong guess leads the planner astray.
#[derive(Clone, Debug)]
pub struct ScriptedHop {
    /// How the sub-question begins.
    pub ask: String,
    /// What the target tool finds, where the sub-question is the right one. Empty: nothing.
    pub answer: String,
    /// What the speculator says, best first.
    pub guesses: Vec<String>,
    /// How sure it says it is of the best one.
    pub confidence: Option<Chance>,
    /// Whether the drafter foresees its sub-question, or something else. `None`: it has no idea.
    pub draft_held: Option<bool>,
    /// The earlier hops, from 0, whose answers the sub-question is made of. `None`: the one before.
    pub depends_on: Option<Vec<usize>>,
    /// Time of the segment that writes the sub-question.
    pub segment: Duration,
    /// Time of retrieval and reading; retrieval takes three quarters of it.
    pub target: Duration,
    /// Time of the guess.
    pub speculation: Duration,
}

/// A whole question.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The hops in their order.
    pub hops: Vec<ScriptedHop>,
    /// Time in which somebody writes a draft.
    pub draft_time: Duration,
    /// How sure the drafter says it is; else it is as likely as not.
    pub draft_chance: Option<Chance>,
    /// Time of the segment that writes the final answer.
    pub final_segment: Duration,
    /// How often a stage of a hop (from 0) fails before it works.
    pub failures: BTreeMap<(usize, Stage), u32>,
    /// How many turns of the executor a retrieval takes beside its time: what comes at once comes
    /// first, without any clock.
    pub target_turns: u32,
    /// The least number of bytes of each passage's text.
    pub passage_bytes: usize,
}

impl Script {
    /// `hops` hops with no delays at all; every guess is right.
    pub fn instant(hops: usize) -> Self {
        Self {
            hops: (0..hops)
                .map(|i| hop(i, true, [Duration::ZERO; 3]))
                .collect(),
            ..Self::default()
        }
    }

    /// `hops` hops with the same times; `right` says of each hop whether its guess is.
    pub fn steady(right: &[bool], segment: u64, target: u64, speculation: u64) -> Self {
        let times = [segment, target, speculation].map(Duration::from_millis);
        Self {
            hops: right
                .iter()
                .enumerate()
                .map(|(i, right)| hop(i, *right, times))
                .collect(),
            final_segment: times[0],
            ..Self::default()
        }
    }

    /// Everything drawn: one to six hops, times up to 50, 500 and 100 ms, half of the guesses
    /// right, some stages failing once.
    pub fn random(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let hops = rng.random_range(1..=6);
        let mut script = Self {
            final_segment: Duration::from_millis(rng.random_range(0..50)),
            ..Self::default()
        };
        for i in 0..hops {
            let times = [50, 500, 100].map(|most| Duration::from_millis(rng.random_range(0..most)));
            let right = rng.random_bool(0.5);
            let mut hop = hop(i, right, times);
            if rng.random_bool(0.1) {
                hop.guesses.clear();
            }
            // Drawn apart, so that all else stays as it was drawn before there were drafts.
            let mut of_drafts = StdRng::seed_from_u64(seed.rotate_left(32) ^ i as u64);
            if of_drafts.random_bool(0.6) {
                hop.draft_held = Some(of_drafts.random_bool(0.6));
            }
            script.hops.push(hop);
            if rng.random_bool(0.1) {
                script.failures.insert((i, Stage::Speculation), 1);
            }
        }
        script
    }

    /// The answer of the whole question on the right path.
    pub fn answer(&self) -> String {
        format!(
            "so {}",
            self.hops.last().map_or("nothing", |hop| &hop.answer)
        )
    }
}

fn hop(i: usize, right: bool, [segment, target, speculation]: [Duration; 3]) -> ScriptedHop {
    ScriptedHop {
        ask: format!("q{i} after"),
        answer: format!("fact {i}"),
        guesses: vec![if right {
            format!("fact {i}")
        } else {
            format!("fiction {i}")
        }],
        confidence: None,
        draft_held: None,
        depends_on: None,
        segment,
        target,
        speculation,
    }
}

/// Every port of an agent, played from a script. Clones share their counters.
#[derive(Clone)]
pub struct ScriptedPorts {
    script: Arc<Script>,
    live: Arc<AtomicUsize>,
    started: Arc<AtomicUsize>,
    failures: Arc<Mutex<BTreeMap<(usize, Stage), u32>>>,
}

/// Counts a call for as long as its future lives.
struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl ScriptedPorts {
    /// Ports that play this script.
    pub fn new(script: Script) -> Self {
        Self {
            live: Arc::default(),
            started: Arc::default(),
            failures: Arc::new(Mutex::new(script.failures.clone())),
            script: Arc::new(script),
        }
    }

    /// Calls under way: zero whenever no question is.
    pub fn live(&self) -> usize {
        self.live.load(SeqCst)
    }

    /// Calls started since the beginning.
    pub fn started(&self) -> usize {
        self.started.load(SeqCst)
    }

    async fn play(
        &self,
        call: &Call,
        activity: Activity,
        (hop, stage): (usize, Stage),
        time: Duration,
    ) -> Result<(), PortError> {
        self.live.fetch_add(1, SeqCst);
        self.started.fetch_add(1, SeqCst);
        let _live = Live(self.live.clone());
        let _doing = call.doing(activity);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        if self.script.failures.is_empty() {
            return Ok(());
        }
        let mut failures = self.failures.lock();
        match failures.get_mut(&(hop, stage)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                let what = format!("the scripted {stage} of hop {hop}");
                Err(PortError::unavailable(what, "so it is written"))
            }
            _ => Ok(()),
        }
    }

    /// The hop that a sub-question belongs to, and whether it is asked rightly.
    fn find(&self, asked: &str) -> Option<(usize, &ScriptedHop, bool)> {
        let hops = &self.script.hops;
        let (i, hop) = hops
            .iter()
            .enumerate()
            .find(|(_, hop)| asked.starts_with(&hop.ask))?;
        let needed = hop.needed(i);
        let answers = || needed.iter().map(|at| hops[*at].answer.as_str());
        // After a hop that finds nothing there is no wrong way to go on.
        let is_right = answers().any(str::is_empty) || asked == hop.sub_question(answers());
        Some((i, hop, is_right))
    }
}

impl ScriptedHop {
    /// The hops whose answers it is made of, where it is the i-th.
    fn needed(&self, i: usize) -> Vec<usize> {
        let before = || i.checked_sub(1).into_iter().collect();
        self.depends_on.clone().unwrap_or_else(before)
    }

    fn sub_question<'a>(&self, answers: impl Iterator<Item = &'a str>) -> String {
        let answers: Vec<_> = answers.collect();
        match answers[..] {
            [] => format!("{} nothing?", self.ask),
            _ => format!("{} {}?", self.ask, answers.join(" and ")),
        }
    }
}

/// What is said about a sub-question that was led astray: no two of them have the same answer.
fn astray(answer: &str, asked: &str) -> String {
    format!("{answer} astray of ({asked})")
}

const TOKENS: Tokens = Tokens {
    prompt: 10,
    completion: 2,
};

#[async_trait]
impl Planner for ScriptedPorts {
    async fn plan(&self, call: &Call, request: PlanRequest) -> Result<Planned, PortError> {
        let at = request.hops.len();
        let hop = self.script.hops.get(at).filter(|_| !request.must_answer);
        let time = hop.map_or(self.script.final_segment, |hop| hop.segment);
        self.play(call, Activity::Generate, (at, Stage::Segment), time)
            .await?;
        let step = match hop {
            Some(hop) => {
                let needed = hop.needed(at);
                let answers = needed.iter().map(|at| &*request.hops[*at].answer);
                Step::Ask(SubQuestion::new(&hop.sub_question(answers)))
            }
            None => {
                let known = request.hops.last().map_or("nothing", |hop| &hop.answer);
                Step::Answer(format!("so {known}").into())
            }
        };
        Ok(Planned {
            step,
            certainty: None,
            tokens: TOKENS,
        })
    }
}

impl ScriptedPorts {
    /// What the drafter says behind these hops.
    fn drafted(&self, hops: &[KnownHop]) -> Option<Draft> {
        let at = hops.len();
        let hop = self.script.hops.get(at)?;
        let needed = hop.needed(at);
        let answers = needed.iter().map(|at| &*hops[*at].answer);
        let text = match hop.draft_held? {
            true => hop.sub_question(answers),
            false => format!("{} elsewhere?", hop.ask),
        };
        Some(Draft {
            sub_question: SubQuestion::new(&text),
            chance: self.script.draft_chance.unwrap_or(Chance::EVEN),
        })
    }
}

impl Drafter for ScriptedPorts {
    fn draft(&self, request: &DraftRequest<'_>) -> Vec<Draft> {
        let draft = self.drafted(request.hops);
        draft.into_iter().take(request.limit).collect()
    }
}

/// Every sample says the same.
#[async_trait]
impl DraftWriter for ScriptedPorts {
    async fn write_draft(
        &self,
        call: &Call,
        request: PlanRequest,
        _sample: u32,
    ) -> Result<WrittenDraft, PortError> {
        let at = (request.hops.len(), Stage::Draft);
        self.play(call, Activity::Generate, at, self.script.draft_time)
            .await?;
        Ok(WrittenDraft {
            draft: self.drafted(&request.hops),
            tokens: TOKENS,
        })
    }
}

#[async_trait]
impl Retriever for ScriptedPorts {
    async fn retrieve(
        &self,
        call: &Call,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Passage>, PortError> {
        if let Some((i, hop, _)) = self.find(query) {
            let time = hop.target * 3 / 4;
            self.play(call, Activity::Scan, (i, Stage::Target), time)
                .await?;
        }
        for _ in 0..self.script.target_turns {
            tokio::task::yield_now().await;
        }
        let passage = |rank: usize| {
            let mut text = format!("Text {rank} about {query}");
            text += &"-".repeat(self.script.passage_bytes.saturating_sub(text.len()));
            Passage {
                id: format!("p{rank}-{query}").into(),
                title: format!("Title {rank}").into(),
                text: text.into(),
                url: None,
                score: 1.0 / (1.0 + rank as f32),
            }
        };
        Ok((0..limit.min(3)).map(passage).collect())
    }
}

#[async_trait]
impl Reader for ScriptedPorts {
    async fn read(&self, call: &Call, request: ReadRequest) -> Result<Reading, PortError> {
        let found = self.find(request.sub_question.as_str());
        let answer = match found {
            _ if request.passages.is_empty() => None,
            Some((_, hop, true)) => Some(hop.answer.clone()).filter(|answer| !answer.is_empty()),
            Some((_, hop, false)) => Some(astray(&hop.answer, request.sub_question.as_str())),
            None => None,
        };
        if let Some((_, hop, _)) = found {
            // A stage fails at most once a call: in its retrieval.
            let at = (usize::MAX, Stage::Target);
            self.play(call, Activity::Read, at, hop.target / 4).await?;
        }
        Ok(Reading {
            answer: answer.map(Into::into),
            confidence: None,
            tokens: TOKENS,
        })
    }
}

#[async_trait]
impl Speculator for ScriptedPorts {
    async fn guess(&self, call: &Call, request: GuessRequest) -> Result<Guessed, PortError> {
        let found = self.find(request.sub_question.as_str());
        if let Some((i, hop, _)) = found {
            let at = (i, Stage::Speculation);
            self.play(call, Activity::Generate, at, hop.speculation)
                .await?;
        }
        let asked = request.sub_question.as_str();
        let guesses = match found {
            Some((_, hop, true)) => hop.guesses.clone(),
            Some((_, hop, false)) => hop
                .guesses
                .iter()
                .map(|guess| astray(guess, asked))
                .collect(),
            None => Vec::new(),
        };
        let few = guesses.into_iter().take(request.limit.get());
        let mut guesses: Vec<Guess> = few.map(Guess::from).collect();
        if let (Some(best), Some((_, hop, _))) = (guesses.first_mut(), found) {
            best.confidence = hop.confidence;
        }
        Ok(Guessed {
            guesses,
            tokens: TOKENS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spechop_ports::contract;

    #[tokio::test]
    async fn keeps_the_contracts() {
        let ports = ScriptedPorts::new(Script::instant(2));
        contract::planner(&ports).await;
        contract::reader(&ports).await;
        contract::retriever(&ports).await;
        contract::speculator(&ports).await;
        contract::draft_writer(&ports).await;
        assert_eq!(ports.live(), 0);
    }
}
