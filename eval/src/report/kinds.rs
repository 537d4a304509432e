//! What each type of question gains, and how well it is answered.

use std::collections::BTreeMap;

use spechop_theory::Interval;

use super::estimate::Estimates;
use super::groups::{Case, Compared, Group, View, common, rel_lat};
use super::quality::em_and_f1;
use super::table::{Cell, Table};

/// A type of question.
pub(super) struct Kind<'a> {
    pub(super) name: &'a str,
    pub(super) with: Vec<Case<'a>>,
    /// The same questions, or none.
    pub(super) without: Vec<Case<'a>>,
    pub(super) estimates: Estimates,
    /// Questions that the estimates are of.
    pub(super) estimated: usize,
}

impl Kind<'_> {
    pub(super) fn rel_lat(&self) -> Option<Interval> {
        rel_lat(&self.with)
    }

    pub(super) fn without_salvage(&self) -> Option<Interval> {
        rel_lat(&self.without)
    }
}

/// The variants whose types are shown: with salvage, and the same without where there is one.
pub(super) fn shown<'b, 'a>(
    view: &'b View<'a>,
    speculator: &str,
) -> Option<(&'b Compared<'a>, Option<&'b Compared<'a>>)> {
    let best = view.best(speculator)?;
    let without = |with: &Compared<'_>| {
        let mut plain = with.variant.clone();
        plain.options.salvage = Some(false);
        view.get(&plain)
    };
    if let Some(without) = without(best) {
        return Some((best, Some(without)));
    }
    // The fastest of those that there are both of, else the fastest.
    let both = view
        .main()
        .filter(|c| c.is_usual() && c.variant.speculator() == speculator);
    let both = both.filter_map(|with| Some((with, without(with)?, with.rel_lat_value()?)));
    let both = both.min_by(|(.., a), (.., b)| a.total_cmp(b));
    Some(both.map_or((best, None), |(with, without, _)| (with, Some(without))))
}

/// The types of a variant's questions, by name.
pub(super) fn kinds<'a>(
    view: &View<'a>,
    speculator: &str,
    with: &Compared<'a>,
    without: Option<&Compared<'a>>,
) -> Vec<Kind<'a>> {
    let by_kind = |compared: &Compared<'a>| {
        let mut by_kind: BTreeMap<&'a str, Vec<Case<'a>>> = BTreeMap::new();
        for case in &compared.cases {
            by_kind.entry(&case.question.kind).or_default().push(*case);
        }
        by_kind
    };
    let widest = view.widest(speculator).map(by_kind).unwrap_or_default();
    let mut without = without.map(by_kind).unwrap_or_default();
    let with = by_kind(with).into_iter();
    let kind = |(name, all): (&'a str, Vec<Case<'a>>)| {
        let without = without.remove(name).unwrap_or_default();
        let (with, without) = match common(&all, &without) {
            (with, _) if with.is_empty() => (all, Vec::new()),
            both => both,
        };
        let widest = widest.get(name).map_or(&[][..], Vec::as_slice);
        Kind {
            name,
            with,
            without,
            estimates: Estimates::of(widest.iter().map(|case| case.row)),
            estimated: widest.len(),
        }
    };
    with.map(kind).collect()
}

pub(super) fn table(group: &Group<'_>, speculator: &str) -> Table {
    let mut rows = Vec::new();
    for view in &group.views {
        let Some((with, without)) = shown(view, speculator) else {
            continue;
        };
        for kind in kinds(view, speculator, with, without) {
            let asked = view
                .run
                .questions
                .iter()
                .filter(|question| question.kind == kind.name)
                .count();
            let [em, f1] = em_and_f1(&kind.with);
            rows.push(vec![
                Cell::text(&view.label),
                Cell::text(kind.name),
                Cell::share_of(kind.with.len(), asked),
                Cell::text(with.name()),
                Cell::interval(kind.rel_lat(), 3),
                Cell::interval(kind.without_salvage(), 3),
                em,
                f1,
                Cell::share_of(kind.estimated, asked),
                Cell::interval(kind.estimates.bound(), 3),
                Cell::interval(kind.estimates.bound_at_length(), 3),
                Cell::interval(kind.estimates.p_effective(), 2),
                Cell::interval(kind.estimates.alpha(), 2),
                Cell::interval(kind.estimates.beta(), 2),
            ]);
        }
    }
    Table {
        name: "by_type",
        title: format!("By type of question, speculator {speculator}"),
        about: "With and without salvage over the same questions, beside what theory says with the type's own \
                effective p, α and β. Theory knows neither of salvage nor of plan-ahead: if a wrong guess is of no \
                consequence to the next sub-question, they can do better. EM and F1 are those of the variant."
            .into(),
        columns: [
            "Source", "Type", "Questions", "Variant", "RelLat", "RelLat, salvage off", "EM", "F1",
            "Questions of p, α, β", "RelLat*", "RelLat* at this length", "Effective p", "α", "β",
        ]
        .map(String::from)
        .into(),
        rows,
    }
}
