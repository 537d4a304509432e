//! Which tools may be called ahead of need, how far, and at what price (PASTE, figure 6, graded).
//! What is not named may not.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// How far a tool may be called ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// The whole call, where there is slack.
    Full,
    /// What makes a later call faster and changes nothing anywhere. A retriever encodes its query; a planner
    /// has its prompt processed, or its connection opened. Readers and speculators have nothing of the kind, so
    /// for them it is [`Grade::Never`].
    Warmup,
    /// Nothing before the answer needs it.
    Never,
}

/// What a call does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idempotence {
    /// It reads.
    Safe,
    /// It writes, and twice is the same as once.
    Idempotent,
    /// Every call counts.
    Effectful,
}

/// What holds for one tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// How far it may be called ahead.
    pub grade: Grade,
    /// What a call does to the world.
    pub idempotence: Idempotence,
    /// What a call costs beside its time, relative to others of its backend.
    pub cost: f32,
}

impl Rule {
    /// What holds for a tool that nobody named.
    pub const DENY: Self = Self {
        grade: Grade::Never,
        idempotence: Idempotence::Effectful,
        cost: 1.0,
    };

    /// For a call whose result nothing but a call under `next` makes use of, as of a retrieval
    /// nothing but the reading. If `next` may not be called ahead in full, all that can be done
    /// ahead of need is to warm up; the rest would be thrown away.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        let grade = match (self.grade, next.grade) {
            (Grade::Full, Grade::Warmup | Grade::Never) => Grade::Warmup,
            (grade, _) => grade,
        };
        Self { grade, ..self }
    }

    /// For a call that is a part of a call under `whole`, as the retrieval and the reading of a
    /// speculator that looks up for itself: at the price of the whole, and not ahead of need unless
    /// both may be. A part is not worth warming up for a whole that is never called.
    #[must_use]
    pub fn as_part_of(self, whole: Self) -> Self {
        let grade = match whole.grade {
            Grade::Full => self.grade,
            Grade::Warmup | Grade::Never => Grade::Never,
        };
        Self {
            grade,
            cost: whole.cost,
            ..self
        }
    }
}

/// One thing that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The tool, or the file's own part that is none.
    pub tool: String,
    /// What is wrong.
    pub what: String,
}

/// Everything that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Mistake { tool, what }) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{tool}: {what}")?;
        }
        Ok(())
    }
}

/// The rules of all tools.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Eligibility {
    tools: BTreeMap<String, Rule>,
}

/// What the operator wrote about one tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    grade: Grade,
    idempotence: Idempotence,
    #[serde(default = "usual_cost")]
    cost: f64,
}

fn usual_cost() -> f64 {
    1.0
}

impl Eligibility {
    /// The policy for our own tools: all that there are. A look-up is the retriever's wherever it goes.
    /// All of them only read, and the speculator is there to be cheap.
    pub fn shipped() -> Self {
        let reads = |cost| Rule {
            grade: Grade::Full,
            idempotence: Idempotence::Safe,
            cost,
        };
        let tools = [
            ("planner", reads(1.0)),
            ("reader", reads(1.0)),
            ("retriever", reads(1.0)),
            ("speculator", reads(0.2)),
        ];
        let named = tools.map(|(tool, rule)| (tool.to_owned(), rule));
        Self {
            tools: named.into(),
        }
    }

    /// Reads `tool = { grade = "full", idempotence = "safe", cost = 1.0 }` lines; the cost may be
    /// left out.
    ///
    /// # Errors
    ///
    /// Every mistake at once.
    pub fn parse(text: &str) -> Result<Self, Mistakes> {
        match text.parse() {
            Ok(table) => Self::from_table(&table),
            Err(error) => Err(Mistakes(vec![Mistake {
                tool: "the policy".to_owned(),
                what: toml::de::Error::message(&error).to_owned(),
            }])),
        }
    }

    fn from_table(table: &toml::Table) -> Result<Self, Mistakes> {
        let known = Self::shipped().tools;
        let mut tools = BTreeMap::new();
        let mut mistakes = Vec::new();
        for (tool, raw) in table {
            // A rule that nobody asks for would forbid nothing, and nobody would hear of it.
            let read = match known.contains_key(tool) {
                true => rule(raw.clone()),
                false => {
                    let known: Vec<_> = known.keys().map(String::as_str).collect();
                    let known = known.join(", ");
                    Err(format!("there is no such tool; there are {known}"))
                }
            };
            match read {
                Ok(rule) => {
                    tools.insert(tool.clone(), rule);
                }
                Err(what) => mistakes.push(Mistake {
                    tool: tool.clone(),
                    what,
                }),
            }
        }
        if mistakes.is_empty() {
            Ok(Self { tools })
        } else {
            Err(Mistakes(mistakes))
        }
    }

    /// What holds for a tool; [`Rule::DENY`] where nobody named it.
    pub fn of(&self, tool: &str) -> Rule {
        self.tools.get(tool).copied().unwrap_or(Rule::DENY)
    }
}

fn rule(raw: toml::Value) -> Result<Rule, String> {
    let raw: RawRule = raw.try_into().map_err(|error| {
        let error: toml::de::Error = error;
        error.message().to_owned()
    })?;
    let cost = raw.cost as f32;
    if !(cost.is_finite() && cost >= 0.0) {
        return Err(format!("a cost is a number from zero up, not {}", raw.cost));
    }
    if raw.grade == Grade::Full && raw.idempotence == Idempotence::Effectful {
        return Err("what has effects cannot be called ahead in full".to_owned());
    }
    Ok(Rule {
        grade: raw.grade,
        idempotence: raw.idempotence,
        cost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy and what is wrong with it, mistakes in order of tools.
    fn check(text: &str, expected: &[&str]) {
        let mistakes = match Eligibility::parse(text) {
            Ok(_) => Vec::new(),
            Err(Mistakes(mistakes)) => mistakes,
        };
        let told: Vec<_> = mistakes
            .iter()
            .map(|m| format!("{}: {}", m.tool, m.what))
            .collect();
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.contains(expected), "{told} should tell of {expected}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_tool() {
        check("", &[]);
        check(r#"reader = { grade = "full", idempotence = "safe" }"#, &[]);
        check(
            r#"
            planner = { grade = "full", idempotence = "effectful" }
            reader = { grade = "half", idempotence = "safe" }
            retriever = { grade = "full" }
            retrievers = { grade = "never", idempotence = "safe" }
            speculator = "full"
            web_search = { grade = "never", idempotence = "safe" }
            "#,
            &[
                "planner: what has effects",
                "reader: unknown variant `half`",
                "retriever: missing field `idempotence`",
                "retrievers: there is no such tool; there are planner, reader, retriever, speculator",
                "speculator: invalid type",
                "web_search: there is no such tool",
            ],
        );
        check(
            r#"
            planner = { grade = "never", idempotence = "effectful", cost = 0 }
            reader = { grade = "full", idempotence = "safe", cost = -1.0 }
            retriever = { grade = "full", idempotence = "safe", costs = 1.0 }
            speculator = { grade = "full", idempotence = "safe", cost = inf }
            "#,
            &[
                "reader: a cost is a number from zero up",
                "retriever: unknown field `costs`",
                "speculator: a cost is a number from zero up",
            ],
        );
        check("=", &["the policy: "]);
    }

    #[test]
    fn nothing_is_done_ahead_for_what_may_not_follow() {
        use Grade::{Full, Never, Warmup};
        let rule = |grade, cost| Rule {
            grade,
            cost,
            ..Eligibility::shipped().of("retriever")
        };
        for (this, other, followed, part) in [
            (Full, Full, Full, Full),
            (Full, Warmup, Warmup, Never),
            (Full, Never, Warmup, Never),
            (Warmup, Full, Warmup, Warmup),
            (Warmup, Never, Warmup, Never),
            (Never, Full, Never, Never),
            (Never, Never, Never, Never),
        ] {
            let (this, other) = (rule(this, 1.0), rule(other, 0.2));
            assert_eq!(this.followed_by(other), rule(followed, 1.0));
            assert_eq!(this.as_part_of(other), rule(part, 0.2));
        }
    }

    #[test]
    fn what_is_not_named_is_denied() {
        let shipped = Eligibility::shipped();
        for tool in ["planner", "reader", "retriever", "speculator"] {
            assert_eq!(shipped.of(tool).grade, Grade::Full, "{tool}");
        }
        assert_eq!(shipped.of("send_mail"), Rule::DENY);
        assert_eq!(shipped.tools.len(), 4);
    }
}
