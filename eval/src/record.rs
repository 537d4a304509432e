//! Records whatever stage a variant needs: the question is played over the bundle, the first stage
//! that is missing is run for real, once, with nothing beside it, and the question is played again.

mod all;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use spechop_ports::{
    Call, GuessRequest, Guessed, KnownHop, PlanRequest, Planner, PortError, ReadRequest, Reader,
    Retriever, Speculator,
};
use spechop_sim::Clock;
use spechop_types::{Chance, InvalidQuestion, Passage, Step, SubQuestion, Tokens};
use tokio::time::Instant;

use crate::bundle::{Bundle, BundleError};
use crate::play::play;
use crate::stage::{HopTexts, Input, Output, PassageName, RecordedGuess, Stage};
use crate::{Injected, Question, Row, Variant};
pub use all::{LeftOut, RecordEvent};

/// The real parts.
#[derive(Clone)]
pub struct Parts {
    /// Writes sub-questions and answers.
    pub planner: Arc<dyn Planner>,
    /// Looks up.
    pub retriever: Arc<dyn Retriever>,
    /// Reads.
    pub reader: Arc<dyn Reader>,
    /// Guess, by the names that variants call them.
    pub speculators: BTreeMap<String, Arc<dyn Speculator>>,
}

/// Why recording stopped. What was recorded is kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A variant names a speculator that is not there.
    #[error("there is no speculator `{name}`; there are: {there}")]
    NoSpeculator {
        /// What it names.
        name: String,
        /// Those there are.
        there: String,
    },
    /// A stage failed, and failed again.
    #[error("question {id}: {what} failed {tries} times")]
    Stage {
        /// The question.
        id: String,
        /// Which stage.
        what: String,
        /// How often it was tried.
        tries: u32,
        /// The last failure.
        source: PortError,
    },
    /// [`Recorder::record_all`] stopped, and no single question is to blame.
    #[error("{done} of {of} questions are done; run the same command again to resume")]
    Stopped {
        /// Questions that came before.
        done: usize,
        /// Questions of the bundle.
        of: usize,
        /// The last failure.
        source: Box<RecordError>,
    },
    /// A question that cannot be asked.
    #[error("question {id} cannot be asked")]
    Question {
        /// Which one.
        id: String,
        /// Why not.
        source: InvalidQuestion,
    },
    /// The bundle cannot be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// Before a stage that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a stage is tried.
const TRIES: u32 = 4;

/// Runs real parts for a bundle.
pub struct Recorder {
    parts: Parts,
    clock: Clock,
    /// The texts of what was retrieved for the question in hand: bundles hold names alone.
    texts: HashMap<Arc<str>, Passage>,
}

impl Recorder {
    /// A recorder with these parts.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            clock: Clock::new(),
            texts: HashMap::new(),
        }
    }

    /// Whether every variant's speculator is there.
    ///
    /// # Errors
    ///
    /// The first one that is not.
    pub fn check(&self, variants: &[Variant]) -> Result<(), RecordError> {
        let there = &self.parts.speculators;
        let lacks = |variant: &&Variant| {
            !variant.is_standard() && !there.contains_key(variant.speculator())
        };
        match variants.iter().find(lacks) {
            None => Ok(()),
            Some(variant) => Err(self.no_speculator(variant.speculator())),
        }
    }

    fn no_speculator(&self, name: &str) -> RecordError {
        let there: Vec<_> = self.parts.speculators.keys().map(String::as_str).collect();
        RecordError::NoSpeculator {
            name: name.to_owned(),
            there: there.join(", "),
        }
    }

    /// Runs every part once, unmeasured: models take their buffers and read their fixed prompts the first
    /// time. What fails here will fail again, and be said, where it counts.
    pub async fn warm_up(&mut self, bundle: &Bundle) {
        let (question, asked) = Question::OF_NO_RUN;
        let hops = Vec::new();
        let (question, asked): (Arc<str>, Arc<str>) = (question.into(), asked.into());
        let mut inputs = vec![
            Input::Segment {
                question: Arc::clone(&question),
                hops: hops.clone(),
                must_answer: false,
            },
            Input::Retrieval {
                query: Arc::clone(&asked),
                limit: bundle.info().passages,
            },
        ];
        inputs.extend(
            self.parts
                .speculators
                .keys()
                .map(|name| Input::Speculation {
                    speculator: name.as_str().into(),
                    question: Arc::clone(&question),
                    hops: hops.clone(),
                    sub_question: Arc::clone(&asked),
                    limit: 1,
                }),
        );
        for input in inputs {
            let ran = self.try_run("", &input, bundle).await;
            if let Ok(Ok(Stage {
                output: Output::Passages(names),
                ..
            })) = ran
            {
                let reading = Input::Reading {
                    sub_question: Arc::clone(&asked),
                    passages: names.into_iter().map(|name| name.id).collect(),
                };
                let _ = self.try_run("", &reading, bundle).await;
            }
        }
    }

    /// Records what question `at` of the bundle needs to be answered in this way, and answers it.
    /// `ran` is told of every stage that was run.
    ///
    /// # Errors
    ///
    /// A stage that keeps failing, or a bundle that cannot be written. Nothing recorded is lost.
    pub async fn record(
        &mut self,
        bundle: &mut Bundle,
        at: usize,
        variant: &Variant,
        injected: Option<Injected>,
        ran: &mut (dyn FnMut(&Stage) + Send),
    ) -> Result<Row, RecordError> {
        loop {
            let question = &bundle.questions()[at];
            let missing = match play(&mut self.clock, bundle, question, variant, injected) {
                Ok(row) => return Ok(row),
                Err(missing) => *missing.0,
            };
            let id = question.id.clone();
            let stage = self.run(&id, missing, bundle).await?;
            ran(&stage);
            bundle.push(stage)?;
        }
    }

    async fn run(&mut self, id: &str, input: Input, bundle: &Bundle) -> Result<Stage, RecordError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let ran = self.try_run(id, &input, bundle).await?;
            match ran.and_then(sound) {
                Ok(stage) => return Ok(stage),
                Err(source) if tries >= TRIES => {
                    return Err(RecordError::Stage {
                        id: id.to_owned(),
                        what: input.describe(),
                        tries,
                        source,
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE * tries).await,
            }
        }
    }

    /// Runs a stage once. The inner result is the port's.
    async fn try_run(
        &mut self,
        id: &str,
        input: &Input,
        bundle: &Bundle,
    ) -> Result<Result<Stage, PortError>, RecordError> {
        let asked = |text: &str| {
            spechop_types::Question::new(text).map_err(|source| RecordError::Question {
                id: id.to_owned(),
                source,
            })
        };
        let measured = match input {
            Input::Segment {
                question,
                hops,
                must_answer,
            } => {
                let request = PlanRequest {
                    question: asked(question)?,
                    hops: known(hops),
                    must_answer: *must_answer,
                    drafts: Vec::new(),
                };
                self.plan(request).await
            }
            Input::Retrieval { query, limit } => self.retrieve(query, *limit).await,
            Input::Reading {
                sub_question,
                passages,
            } => self.read(sub_question, passages, bundle).await,
            Input::Speculation {
                speculator,
                question,
                hops,
                sub_question,
                limit,
            } => {
                let Some(guesser) = self.parts.speculators.get(&**speculator) else {
                    return Err(self.no_speculator(speculator));
                };
                let request = GuessRequest {
                    question: asked(question)?,
                    hops: known(hops),
                    sub_question: SubQuestion::new(sub_question),
                    passages: at_least_one(bundle.info().passages),
                    limit: at_least_one(*limit),
                };
                guess(guesser.as_ref(), request).await
            }
        };
        Ok(measured.map(|measured| Stage {
            input: input.clone(),
            output: measured.output,
            // To the microsecond.
            ms: (measured.time.as_secs_f64() * 1e6).round() / 1e3,
            tokens: measured.tokens,
            sure: measured.sure.map(Chance::share_f32),
        }))
    }

    async fn plan(&self, request: PlanRequest) -> Result<Measured, PortError> {
        let started = Instant::now();
        let planned = self.parts.planner.plan(&call(), request).await?;
        let time = started.elapsed();
        let output = match planned.step {
            Step::Ask(sub_question) => Output::Ask(Arc::clone(sub_question.text())),
            Step::Answer(answer) => Output::Answer(answer),
        };
        Ok(Measured {
            output,
            time,
            tokens: planned.tokens.total(),
            sure: planned.certainty,
        })
    }

    async fn retrieve(&mut self, query: &str, limit: usize) -> Result<Measured, PortError> {
        let started = Instant::now();
        let found = self.parts.retriever.retrieve(&call(), query, limit).await?;
        let time = started.elapsed();
        let names = found.iter().map(|passage| PassageName {
            id: Arc::clone(&passage.id),
            title: Arc::clone(&passage.title),
        });
        let output = Output::Passages(names.collect());
        self.keep_texts(found);
        Ok(Measured {
            output,
            time,
            tokens: 0,
            sure: None,
        })
    }

    async fn read(
        &mut self,
        sub_question: &str,
        passages: &[Arc<str>],
        bundle: &Bundle,
    ) -> Result<Measured, PortError> {
        let request = ReadRequest {
            sub_question: SubQuestion::new(sub_question),
            passages: self.texts_of(passages, sub_question, bundle).await?.into(),
        };
        let started = Instant::now();
        let read = self.parts.reader.read(&call(), request).await?;
        Ok(Measured {
            time: started.elapsed(),
            tokens: read.tokens.total(),
            sure: read.confidence,
            output: Output::Read(read.answer),
        })
    }

    /// The passages' texts. Of a look-up that an earlier recording made, only names are known: it is
    /// made again, unmeasured.
    async fn texts_of(
        &mut self,
        ids: &[Arc<str>],
        sub_question: &str,
        bundle: &Bundle,
    ) -> Result<Vec<Passage>, PortError> {
        if ids.iter().any(|id| !self.texts.contains_key(id)) {
            let limit = bundle.info().passages;
            let (call, retriever) = (call(), &self.parts.retriever);
            let found = retriever.retrieve(&call, sub_question, limit).await?;
            self.keep_texts(found);
        }
        // To read fewer than were recorded is to read something else.
        let text = |id| self.texts.get(id).cloned();
        ids.iter().map(text).collect::<Option<_>>().ok_or_else(|| {
            let detail = format!("for “{sub_question}” it no longer finds what was recorded");
            PortError::malformed("the retriever", detail)
        })
    }

    fn keep_texts(&mut self, found: Vec<Passage>) {
        let texts = found.into_iter();
        self.texts
            .extend(texts.map(|passage| (Arc::clone(&passage.id), passage)));
    }
}

/// What a stage brought, and how long its port took.
struct Measured {
    output: Output,
    time: Duration,
    tokens: u64,
    sure: Option<Chance>,
}

async fn guess(guesser: &dyn Speculator, request: GuessRequest) -> Result<Measured, PortError> {
    let started = Instant::now();
    let guessed = match guesser.guess(&call(), request).await {
        // A guess that cannot be used is none: to the agent it makes no difference, and whoever asks again
        // gets the same.
        Err(PortError::Malformed { .. }) => Guessed {
            guesses: Vec::new(),
            tokens: Tokens::default(),
        },
        guessed => guessed?,
    };
    let time = started.elapsed();
    let guesses = guessed.guesses.into_iter().map(|guess| RecordedGuess {
        text: guess.text,
        confidence: guess.confidence.map(Chance::share_f32),
    });
    Ok(Measured {
        output: Output::Guesses(guesses.collect()),
        time,
        tokens: guessed.tokens.total(),
        // Each guess says how sure it is.
        sure: None,
    })
}

/// Nothing runs beside it: every stage is needed.
fn call() -> Call {
    Call::authoritative()
}

/// What no bundle takes is not kept: it would be refused whenever the bundle is read.
fn sound(stage: Stage) -> Result<Stage, PortError> {
    if stage.is_sound() {
        return Ok(stage);
    }
    let (who, what) = match stage.output {
        Output::Ask(_) => ("the planner", "it asked on although it had to answer"),
        _ => ("a model", "how sure it is is no share from 0 to 1"),
    };
    Err(PortError::malformed(who, what))
}

/// Bundles say how many as any number.
fn at_least_one(many: usize) -> NonZeroUsize {
    NonZeroUsize::new(many).unwrap_or(NonZeroUsize::MIN)
}

fn known(hops: &[HopTexts]) -> Vec<KnownHop> {
    let hop = |(asked, answer): &HopTexts| KnownHop {
        sub_question: SubQuestion::new(asked),
        answer: Arc::clone(answer),
    };
    hops.iter().map(hop).collect()
}
