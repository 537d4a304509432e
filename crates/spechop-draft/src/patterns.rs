//! What is asked after what: patterns of many questions, and how one is found for a question.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::after::AfterPattern;
use crate::form::{Form, Slot, Words};
use crate::step::{Asked, Step};
use crate::{DRAFT_BYTES_MAX, InvalidForm, PatternError, sealed};

/// The patterns mined from the planner's training questions (`eval/train/README.md` has the commands).
const SHIPPED: &str = include_str!("../data/patterns.json");

/// The questions of one form, and what the planner asked in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionPattern {
    pub(crate) form: Form,
    /// How many questions had it, each counted once.
    pub(crate) questions: u32,
    pub(crate) steps: Step,
}

/// Patterns, and the way to find them by a text. Write them with [`Patterns::to_json`].
#[derive(Clone, Debug)]
pub struct Patterns {
    pub(crate) questions: Shelf<QuestionPattern>,
    pub(crate) after: Shelf<AfterPattern>,
}

/// One line of `spechop patterns show`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternRow {
    /// The form of the question, or of the last sub-question, which found nothing.
    pub form: String,
    /// Whether the question decides, not the last sub-question alone.
    pub of_question: bool,
    /// How many questions it was seen in.
    pub questions: u32,
    /// The likeliest sub-questions in order, each with its chance.
    pub asks: Vec<(String, f64)>,
}

impl Patterns {
    /// The patterns that come with the program.
    ///
    /// # Errors
    ///
    /// None, unless the program was built with a damaged file, which a test rules out.
    pub fn shipped() -> Result<Self, PatternError> {
        Self::from_json(SHIPPED)
    }

    /// Reads what [`Patterns::to_json`] writes.
    ///
    /// # Errors
    ///
    /// A text that is damaged, of another format, or whose slots nothing can fill.
    pub fn from_json(json: &str) -> Result<Self, PatternError> {
        sealed::read(json)
    }

    /// JSON with a checksum, one pattern a line.
    ///
    /// # Errors
    ///
    /// A count that JSON cannot hold; there is none.
    pub fn to_json(&self) -> Result<String, PatternError> {
        sealed::write(self)
    }

    pub(crate) fn new(questions: Vec<QuestionPattern>, after: Vec<AfterPattern>) -> Self {
        Self {
            questions: Shelf::new(questions),
            after: Shelf::new(after),
        }
    }

    /// The patterns in words, those of most questions first.
    pub fn rows(&self) -> Vec<PatternRow> {
        let questions = self.questions.items.iter().map(|pattern| PatternRow {
            form: pattern.form.to_string(),
            of_question: true,
            questions: pattern.questions,
            asks: chain(&pattern.steps),
        });
        let after = self.after.items.iter().map(AfterPattern::row);
        let mut rows: Vec<_> = questions.chain(after).collect();
        rows.sort_by(|a, b| {
            let key = |row: &PatternRow| (!row.of_question, std::cmp::Reverse(row.questions));
            key(a).cmp(&key(b)).then_with(|| a.form.cmp(&b.form))
        });
        rows
    }

    /// Where a question stands: by its own form if one is known that also had these hops, else by its last
    /// sub-question.
    pub(crate) fn place<'a>(&'a self, known: &Known<'a>) -> Option<Place<'a>> {
        self.by_question(known).or_else(|| self.by_last(known))
    }

    /// Where a question stands by its form, the most specific one first.
    pub(crate) fn by_question<'a>(&'a self, known: &Known<'a>) -> Option<Place<'a>> {
        let mut fitting = self.questions.matches(known.question);
        fitting.find_map(|(pattern, gaps)| {
            Place::in_pattern(&pattern.form, &pattern.steps, gaps, known)
        })
    }

    /// Where a question stands by its last sub-question, if that found nothing.
    pub(crate) fn by_last<'a>(&'a self, known: &Known<'a>) -> Option<Place<'a>> {
        let last = known.hops.last().filter(|last| !last.found)?;
        let (pattern, again) = self.after.matches(last.text).next()?;
        Some(Place {
            form: &pattern.form,
            step: &pattern.lost,
            names: Vec::new(),
            again,
        })
    }
}

/// The likeliest way through a question to its end.
fn chain(steps: &Step) -> Vec<(String, f64)> {
    let mut asks = Vec::new();
    let mut at = Some(steps);
    while let Some(step) = at {
        let Some(ask) = step.asks.iter().max_by_key(|ask| ask.times) else {
            break;
        };
        if u64::from(step.ended) > u64::from(ask.times) {
            break;
        }
        asks.push((ask.form.to_string(), chance(ask.times, step)));
        at = ask.found.as_deref();
    }
    asks
}

/// The chance of something that was seen so often at a place: half a case more on both sides, so that
/// one sighting is no certainty.
pub(crate) fn chance(times: u32, step: &Step) -> f64 {
    (f64::from(times) + 0.5) / (step.times() as f64 + 1.0)
}

/// What is known of a question when a draft is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) question: &'a str,
    pub(crate) hops: &'a [Asked<'a>],
    /// One for each hop.
    pub(crate) answers: &'a [&'a str],
}

/// A pattern that fits, and how far a question has come in it.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) form: &'a Form,
    pub(crate) step: &'a Step,
    names: Vec<&'a str>,
    again: Vec<&'a str>,
}

impl<'a> Place<'a> {
    /// Follows the hops through a pattern of the question's form.
    pub(crate) fn in_pattern(
        form: &'a Form,
        steps: &'a Step,
        names: Vec<&'a str>,
        known: &Known<'a>,
    ) -> Option<Self> {
        let words = Words {
            names: &names,
            answers: known.answers,
            again: &[],
        };
        let step = steps.at(known.hops, words)?;
        Some(Self {
            form,
            step,
            names,
            again: Vec::new(),
        })
    }

    /// The sub-questions that were asked at such a place, each with how often. None that could not be of
    /// use: empty, too long, the question itself, or asked before.
    pub(crate) fn asks(&self, known: &Known<'a>) -> impl Iterator<Item = (String, u32)> {
        let words = Words {
            names: &self.names,
            answers: known.answers,
            again: &self.again,
        };
        let asks = self.step.asks.iter();
        asks.filter_map(move |ask| Some((ask.form.filled(words)?, ask.times)))
            .filter(move |(text, _)| {
                text.len() <= DRAFT_BYTES_MAX
                    && !text.trim().is_empty()
                    && text != known.question
                    && known.hops.iter().all(|hop| hop.text != text)
            })
    }

    /// [`Place::asks`] with their chances, the likeliest first.
    pub(crate) fn drafts(&self, known: &Known<'a>, limit: usize) -> Vec<(String, f64)> {
        let asks = self.asks(known);
        let drafts = asks.map(|(text, times)| (text, chance(times, self.step)));
        best(drafts.collect(), limit)
    }
}

/// Drafts that are less likely than this are not worth a look-up.
const CHANCE_MIN: f64 = 0.2;

/// The likeliest drafts, none twice.
pub(crate) fn best(mut drafts: Vec<(String, f64)>, limit: usize) -> Vec<(String, f64)> {
    drafts.retain(|(_, chance)| *chance >= CHANCE_MIN);
    drafts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut kept: Vec<(String, f64)> = Vec::with_capacity(limit.min(drafts.len()));
    for draft in drafts {
        if kept.len() == limit {
            break;
        }
        if kept.iter().all(|other| other.0 != draft.0) {
            kept.push(draft);
        }
    }
    kept
}

/// What has a form by which it is found.
pub(crate) trait Shelved {
    fn form(&self) -> &Form;
}

impl Shelved for QuestionPattern {
    fn form(&self) -> &Form {
        &self.form
    }
}

/// Patterns by the beginnings of their forms, those with the most words of their own first.
#[derive(Clone, Debug)]
pub(crate) struct Shelf<T> {
    pub(crate) items: Vec<T>,
    by_head: HashMap<[u8; HEAD], Vec<usize>>,
    /// Those that begin with a gap, or nearly.
    others: Vec<usize>,
}

/// Enough to tell "Who is t" from "Who is o", and few enough that most forms have them.
const HEAD: usize = 8;

fn head(text: &str) -> Option<[u8; HEAD]> {
    text.as_bytes().first_chunk().copied()
}

impl<T: Shelved> Shelf<T> {
    fn new(mut items: Vec<T>) -> Self {
        items.sort_by(|a, b| {
            let (a, b) = (a.form(), b.form());
            b.own_bytes().cmp(&a.own_bytes()).then_with(|| a.cmp(b))
        });
        let mut by_head: HashMap<_, Vec<_>> = HashMap::new();
        let mut others = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match head(item.form().head()) {
                Some(head) => by_head.entry(head).or_default().push(at),
                None => others.push(at),
            }
        }
        Self {
            items,
            by_head,
            others,
        }
    }

    /// The patterns of a text's form, the most specific first, with the words in their gaps.
    pub(crate) fn matches<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (&'a T, Vec<&'a str>)> {
        let near = head(text).and_then(|head| self.by_head.get(&head));
        let mut near = near
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .copied()
            .peekable();
        let mut far = self.others.iter().copied().peekable();
        let order = std::iter::from_fn(move || match (near.peek(), far.peek()) {
            (Some(a), Some(b)) if a > b => far.next(),
            (None, _) => far.next(),
            _ => near.next(),
        });
        order.filter_map(move |at| {
            let item = self.items.get(at)?;
            Some((item, item.form().gaps(text)?))
        })
    }
}

/// Whether the gaps of a form are the first, the second and so on: as a pattern's own form has them.
pub(crate) fn in_order(form: &Form, slot: impl Fn(u8) -> Slot) -> Result<usize, InvalidForm> {
    let mut count = 0;
    for found in form.slots() {
        let wanted = u8::try_from(count).map(&slot);
        if wanted != Ok(found) {
            return Err(InvalidForm::Slot(found.to_string()));
        }
        count += 1;
    }
    Ok(count)
}
