//! Runs, put side by side: who is compared with whom, over which questions.

mod rows;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use spechop_theory::{Interval, PUBLISHED_WEB_MS};
use spechop_types::{K, VerifierMode};

use crate::stats;
use crate::{Control, Question, Row, Run, RunInfo, Source, Variant};

use super::{ReportError, unlike};
use rows::{baselines, compare, never_begun, pairs, rows_by_variant};

/// A run of fewer questions is a sample to try things with.
pub(super) const MANY: usize = 30;

/// Runs of the same system, data set and injected latency.
pub(super) struct Group<'a> {
    pub(super) title: String,
    /// What a reader must be told before its numbers.
    pub(super) warnings: Vec<String>,
    /// Simulated first, then live, then replayed.
    pub(super) views: Vec<View<'a>>,
}

/// A run, seen as comparisons with its standard agent.
pub(super) struct View<'a> {
    pub(super) run: &'a Run,
    /// The source, and a number where there are several runs of it.
    pub(super) label: String,
    /// The standard agent's rows, by the number of questions under way at once.
    pub(super) standard: BTreeMap<u32, Vec<Pair<'a>>>,
    /// Every other variant, fewest questions at once first, then by k.
    pub(super) compared: Vec<Compared<'a>>,
}

/// A question and its row.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) question: &'a Question,
    pub(super) row: &'a Row,
}

/// A variant beside the standard agent.
pub(super) struct Compared<'a> {
    pub(super) variant: &'a Variant,
    pub(super) concurrency: u32,
    /// The questions that both have answered.
    pub(super) cases: Vec<Case<'a>>,
}

/// A question that was answered both ways.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) question: &'a Question,
    pub(super) base: &'a Row,
    pub(super) row: &'a Row,
}

/// The runs in groups, those of most questions first, and what a reader must be told of no single group.
pub(super) fn group(runs: &[Run]) -> Result<(Vec<Group<'_>>, Vec<String>), ReportError> {
    if runs.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut grouped: BTreeMap<String, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        grouped.entry(title(&run.info)).or_default().push(run);
    }
    let mut general = Vec::new();
    let mut groups = Vec::new();
    for (title, mut runs) in grouped {
        let mut warnings = Vec::new();
        runs.sort_by_key(|run| run.info.source);
        let mut views: Vec<View<'_>> = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            let source = run.info.source;
            let same = runs.iter().take(at);
            // Those that are left out keep their number.
            let label = match same.filter(|run| run.info.source == source).count() {
                0 => source_name(source).to_owned(),
                n => format!("{} {}", source_name(source), n + 1),
            };
            let place = format!("{title}, {label}");
            let (view, of_run) = View::new(run, label);
            views.extend(view);
            warnings.extend(of_run.iter().map(|warning| format!("{place}: {warning}")));
        }
        if views.is_empty() {
            general.extend(warnings);
            continue;
        }
        let mut group = Group {
            title,
            warnings,
            views,
        };
        group.warnings.extend(unlike::warnings(&group));
        groups.push(group);
    }
    if groups.is_empty() {
        return Err(ReportError::NoBaseline);
    }
    // The sort is stable: of equals, the titles decide.
    groups.sort_by_key(|group| {
        let is_injected = group.infos().any(|info| info.injected.is_some());
        (Reverse(group.questions()), !is_injected)
    });
    general.extend(unlike::commits(&groups));
    Ok((groups, general))
}

impl<'a> Group<'a> {
    pub(super) fn infos(&self) -> impl Iterator<Item = &'a RunInfo> {
        self.views.iter().map(|view| &view.run.info)
    }

    /// Whether the data set has this name.
    pub(super) fn is_of(&self, dataset: &str) -> bool {
        let first = self.infos().next();
        first.is_some_and(|info| info.dataset.title() == dataset)
    }

    /// Which of the paper's tools its look-ups are like, by the name that it has there.
    pub(super) fn tool(&self) -> Option<&'static str> {
        let info = self.infos().next()?;
        // By its name: the hash behind it may have an "e5", too.
        let is_e5 = |part: &String| {
            let name = part.split(' ').next().unwrap_or_default();
            name.to_lowercase().contains("e5-")
        };
        match info.injected {
            Some(injected) => (injected.mean_ms == PUBLISHED_WEB_MS[0]).then_some("web"),
            None if info.parts.contains_key("web") => Some("web"),
            None => info.parts.get("encoder").is_some_and(is_e5).then_some("E5"),
        }
    }

    /// Of its largest run.
    pub(super) fn questions(&self) -> usize {
        let questions = self.infos().map(|info| info.questions);
        questions.max().unwrap_or_default()
    }

    /// Whether it has too few questions to say much.
    pub(super) fn is_small(&self) -> bool {
        self.questions() < MANY
    }

    /// The run whose latencies are shown: the live one where there is one.
    pub(super) fn foremost(&self) -> Option<&View<'a>> {
        self.views
            .iter()
            .min_by_key(|view| nearness(view.run.info.source))
    }

    /// The run that has most variants; of equals the foremost.
    pub(super) fn fullest(&self) -> Option<&View<'a>> {
        let place = |view: &&View<'a>| {
            let variants = view.main().count();
            (Reverse(variants), nearness(view.run.info.source))
        };
        self.views.iter().min_by_key(place)
    }

    /// Every number of questions at once that some run has rows of.
    pub(super) fn at_once(&self) -> impl Iterator<Item = u32> {
        self.views
            .iter()
            .flat_map(|view| view.standard.keys().copied())
    }

    /// The least of each run.
    pub(super) fn fewest_at_once(&self) -> impl Iterator<Item = u32> {
        self.views
            .iter()
            .filter_map(|view| view.standard.keys().next().copied())
    }

    /// Every speculator that some run has, the usual one first. Controls are none.
    pub(super) fn speculators(&self) -> Vec<&'a str> {
        let all = self.views.iter().flat_map(|view| view.compared.iter());
        let guessing = all.filter(|c| c.variant.guesses_at_all());
        let names = guessing.map(|c| c.variant.speculator());
        let names: BTreeSet<&str> = names.filter(|name| !Control::is_name(name)).collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        let usual = Variant::standard();
        names.sort_by_key(|name| *name != usual.speculator());
        names
    }
}

impl<'a> View<'a> {
    /// The view and what a reader must be told of the run. There is no view of a run without k = 1 to
    /// compare with.
    fn new(run: &'a Run, label: String) -> (Option<Self>, Vec<String>) {
        let (ways, mut warnings) = rows_by_variant(run);
        warnings.extend(never_begun(run));
        let (standard, others): (Vec<_>, Vec<_>) = ways
            .into_iter()
            .partition(|answered| answered.variant.is_standard());
        let (bases, not_whole) = baselines(standard, run.info.questions);
        warnings.extend(not_whole);
        if bases.is_empty() {
            warnings.push(
                "THE WHOLE RUN IS LEFT OUT: it has no rows of k=1, which everything is compared with."
                    .to_owned(),
            );
            return (None, warnings);
        }
        let mut compared = Vec::new();
        for answered in &others {
            let (found, warning) = compare(run, answered, bases.get(&answered.concurrency));
            compared.extend(found);
            warnings.extend(warning);
        }
        let standard = bases
            .iter()
            .map(|(at_once, rows)| (*at_once, pairs(run, rows)))
            .collect();
        let view = Self {
            run,
            label,
            standard,
            compared,
        };
        (Some(view), warnings)
    }

    /// Those that were run with the fewest questions at once that k = 1 was run with.
    pub(super) fn main(&self) -> impl Iterator<Item = &Compared<'a>> {
        let main = self.standard.keys().next();
        self.compared
            .iter()
            .filter(move |compared| main == Some(&compared.concurrency))
    }

    /// The variant, among [`View::main`].
    pub(super) fn get(&self, variant: &Variant) -> Option<&Compared<'a>> {
        self.main().find(|compared| compared.variant == variant)
    }

    /// This speculator's widest window: there every hop has its guess, so there p is measured.
    pub(super) fn widest(&self, speculator: &str) -> Option<&Compared<'a>> {
        // A server may choose a narrow one.
        self.usual(speculator)
            .into_iter()
            .max_by_key(|c| (c.variant.k() != K::Auto, c.variant.k()))
    }

    /// This speculator's window that was fastest.
    pub(super) fn best(&self, speculator: &str) -> Option<&Compared<'a>> {
        fastest(self.usual(speculator).into_iter())
    }

    /// The fastest of all that are verified as usual; of a run that has none, of those with the exact verifier.
    pub(super) fn fastest(&self) -> Option<&Compared<'a>> {
        self.fastest_if(&|_| true)
    }

    /// The same of those in which this speculator guesses.
    pub(super) fn fastest_of(&self, speculator: &str) -> Option<&Compared<'a>> {
        self.fastest_if(&|c| c.variant.speculator() == speculator)
    }

    fn fastest_if(&self, is_one: &dyn Fn(&Compared<'a>) -> bool) -> Option<&Compared<'a>> {
        let by = |mode| {
            let all = self.main();
            all.filter(move |c| is_one(c) && c.variant.is_verified_by(mode))
        };
        fastest(by(VerifierMode::Rule)).or_else(|| fastest(by(VerifierMode::Exact)))
    }

    /// What this speculator is judged by: the variants that are as usual in all but k; where there are
    /// none, all by the usual verifier; and where there are none of these either, all by the exact one.
    fn usual(&self, speculator: &str) -> Vec<&Compared<'a>> {
        let ranks: [&dyn Fn(&Compared<'a>) -> bool; 3] = [
            &Compared::is_usual,
            &|c| c.variant.is_verified_by(VerifierMode::Rule),
            &|c| c.variant.is_verified_by(VerifierMode::Exact),
        ];
        let is_own =
            |variant: &Variant| variant.guesses_at_all() && variant.speculator() == speculator;
        let own = || self.main().filter(|c| is_own(c.variant));
        let of = ranks.map(|is| own().filter(|c| is(c)).collect::<Vec<_>>());
        let mut some = of.into_iter().filter(|found| !found.is_empty());
        some.next().unwrap_or_default()
    }
}

impl Compared<'_> {
    pub(super) fn name(&self) -> String {
        name(self.variant, self.concurrency)
    }

    /// Whether nothing but k and the speculator is special.
    pub(super) fn is_usual(&self) -> bool {
        let usual = Variant::at(self.variant.k());
        *self.variant == usual.with_speculator(self.variant.speculator())
    }

    pub(super) fn rel_lat(&self) -> Option<Interval> {
        rel_lat(&self.cases)
    }

    pub(super) fn rel_lat_value(&self) -> Option<f64> {
        let row: f64 = self.cases.iter().map(|case| case.row.latency_ms).sum();
        let base: f64 = self.cases.iter().map(|case| case.base.latency_ms).sum();
        Some(row / base).filter(|ratio| ratio.is_finite())
    }
}

impl<'a> Pair<'a> {
    /// The standard agent, compared with itself.
    pub(super) fn beside_itself(&self) -> Case<'a> {
        Case {
            question: self.question,
            base: self.row,
            row: self.row,
        }
    }
}

/// The one with the least RelLat, controls aside.
pub(super) fn fastest<'b, 'a: 'b>(
    of: impl Iterator<Item = &'b Compared<'a>>,
) -> Option<&'b Compared<'a>> {
    let of = of.filter(|c| !Control::is_name(c.variant.speculator()));
    let rated = of.filter_map(|c| Some((c, c.rel_lat_value()?)));
    rated
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(fastest, _)| fastest)
}

/// The cases of the questions that both have, in the order of the first.
pub(super) fn common<'a>(one: &[Case<'a>], other: &[Case<'a>]) -> (Vec<Case<'a>>, Vec<Case<'a>>) {
    let by_id: BTreeMap<&str, &Case<'a>> = other
        .iter()
        .map(|case| (case.question.id.as_str(), case))
        .collect();
    let both = one
        .iter()
        .filter_map(|case| Some((*case, **by_id.get(case.question.id.as_str())?)));
    both.unzip()
}

/// Latency as a share of the standard agent's.
pub(super) fn rel_lat(cases: &[Case<'_>]) -> Option<Interval> {
    let pair = |case: &Case<'_>| [case.row.latency_ms, case.base.latency_ms];
    stats::ratio(&cases.iter().map(pair).collect::<Vec<_>>())
}

/// The less, the nearer to what a user sees.
fn nearness(source: Source) -> usize {
    match source {
        Source::Live => 0,
        Source::Replayed => 1,
        Source::Simulated => 2,
    }
}

/// A source's name in tables.
fn source_name(source: Source) -> &'static str {
    match source {
        Source::Simulated => "simulated",
        Source::Live => "live",
        Source::Replayed => "replayed",
    }
}

fn title(info: &RunInfo) -> String {
    let latency = match info.injected {
        None => "no latency injected".to_owned(),
        Some(injected) => format!(
            "latency INJECTED: {} ± {} ms, seed {}",
            injected.mean_ms, injected.sigma_ms, injected.seed
        ),
    };
    format!("{}, {}, {latency}", info.dataset.title(), info.system)
}

pub(super) fn name(variant: &Variant, concurrency: u32) -> String {
    match concurrency {
        1 => variant.to_string(),
        n => format!("{variant} ({n} at once)"),
    }
}
