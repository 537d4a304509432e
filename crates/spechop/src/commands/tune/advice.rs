//! What follows from a curve, why, and how sure that is. Pure.

use super::curve::{AtK, Curve, Known};

/// Latency that is not worth a wider window: one point in a hundred.
const POINT: f64 = 0.01;
/// With fewer questions the mean itself is unsure.
const QUESTIONS_MIN: u32 = 30;
/// Bounds of p further apart than this say little.
const P_WIDE: f64 = 0.2;
/// If more hops than this have no recorded guess, those of others decide.
const FILLED_IN_MAX: f64 = 0.2;
/// Times that vary more than this have a mean that says little of one question.
const NU_WIDE: f64 = 1.0;
/// How many times its usual look-ups a question may make before it is ended.
const BUDGET_TIMES: f64 = 2.0;

/// One key of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recommended {
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) why: String,
}

/// Settings, and what speaks against relying on them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advice {
    pub(super) k: u32,
    pub(super) settings: Vec<Recommended>,
    pub(super) doubts: Vec<String>,
}

/// The narrowest window that is within a point of the fastest one, unless even the fastest may be slower
/// than none.
fn best(curve: &Curve) -> Option<AtK> {
    let standard = curve.points.first().copied()?;
    let points = || curve.points.iter().copied();
    let fastest = points().min_by(|a, b| a.rel_lat.value.total_cmp(&b.rel_lat.value))?;
    let enough = fastest.rel_lat.value + POINT;
    let narrowest = points().find(|at| at.rel_lat.value <= enough)?;
    match narrowest.rel_lat.high < 1.0 {
        true => Some(narrowest),
        false => Some(standard),
    }
}

pub(super) fn advice(curve: &Curve, known: &Known) -> Advice {
    let mut settings = Vec::new();
    let best = best(curve);
    let k = best.map_or(1, |at| at.k);
    if let Some(at) = best {
        settings.push(of_k(curve, at));
        settings.extend(gate(at, known));
        settings.push(budget(at));
    }
    Advice {
        k,
        settings,
        doubts: doubts(curve, known, k),
    }
}

fn of_k(curve: &Curve, at: AtK) -> Recommended {
    let why = if at.k == 1 {
        "no wider window is surely faster: its upper bound is that of k = 1 or above".to_owned()
    } else {
        let saved = 100.0 * (1.0 - at.rel_lat.value);
        let sure = 100.0 * (1.0 - at.rel_lat.high);
        let wider = curve.points.iter().any(|other| other.k > at.k);
        let end = match wider {
            true => "; a wider window saves less than one point more",
            false => "; no wider one was tried (--k)",
        };
        format!("it saves {saved:.0} % of the latency, and {sure:.0} % at the bound{end}")
    };
    Recommended {
        key: "question.k",
        value: at.k.to_string(),
        why,
    }
}

/// The chance of the last branch of a window in which every guess is as good as the mean one.
fn gate(at: AtK, known: &Known) -> Option<Recommended> {
    let p = known.p.filter(|_| at.k > 1)?;
    let depth = i32::try_from(at.k - 1).ok()?;
    let least = (p.value.powi(depth) * 100.0).floor() / 100.0;
    Some(Recommended {
        key: "question.chance_min",
        value: format!("{least:.2}"),
        why: format!(
            "with p = {:.2}, the last of {} branches is needed with this chance; what is less likely \
             costs look-ups beyond those of the plot",
            p.value, at.k
        ),
    })
}

fn budget(at: AtK) -> Recommended {
    let most = (BUDGET_TIMES * at.targets.high).ceil().max(1.0);
    Recommended {
        key: "question.budget_target_calls",
        value: format!("{most:.0}"),
        why: format!(
            "a question takes {:.1} look-ups at this k, {:.1} at the bound; at twice that it has gone astray, \
             and is answered from what it has",
            at.targets.value, at.targets.high
        ),
    }
}

fn doubts(curve: &Curve, known: &Known, k: u32) -> Vec<String> {
    let mut doubts = Vec::new();
    let questions = curve.questions;
    if questions < QUESTIONS_MIN {
        doubts.push(format!(
            "few questions: {questions} were played, and another {questions} may say something else; let the \
             server answer at least {QUESTIONS_MIN}"
        ));
    }
    match known.p {
        None => doubts.push("p is unknown, so nothing has bounds".to_owned()),
        Some(p) if p.high - p.low > P_WIDE => doubts.push(format!(
            "wide bounds: p is {:.2}, between {:.2} and {:.2}",
            p.value, p.low, p.high
        )),
        Some(_) => {}
    }
    if known.filled_in > FILLED_IN_MAX {
        doubts.push(format!(
            "{:.0} % of the hops have no recorded guess, as after questions at k = 1; guesses of other hops \
             took their place",
            100.0 * known.filled_in
        ));
    }
    if known.nu > NU_WIDE {
        doubts.push(format!(
            "times vary much (their deviation is {:.1} times their mean): single questions differ from the plot",
            known.nu
        ));
    }
    if known.waiting > 0 {
        doubts.push(format!(
            "changed load: {} needed calls wait at this moment, and the plot knows no waiting",
            known.waiting
        ));
    }
    if let Some((auto, why)) = &known.auto
        && *auto != k
    {
        doubts.push(format!(
            "the server itself would take k = {auto} now ({why}); it also counts prices and the load"
        ));
    }
    doubts.push(
        "the bounds hold p and alpha only: neither which questions were asked, nor how loaded the server was \
         when it was asked; `spechop eval load` with --a and --b measures a setting under load"
            .to_owned(),
    );
    doubts
}

#[cfg(test)]
mod tests {
    use spechop_proto::Tuning;

    use super::super::curve::tests::{estimate, played, tuning};
    use super::*;

    fn of(tuning: &Tuning, at: &[(u32, f64, f64)], waiting: u32) -> Advice {
        let played = played(100, at);
        let curve = Curve::of(tuning, &played).unwrap();
        advice(&curve, &Known::of(tuning, &played, waiting))
    }

    fn value<'a>(advice: &'a Advice, key: &str) -> &'a str {
        let found = advice.settings.iter().find(|setting| setting.key == key);
        &found.unwrap().value
    }

    const CURVE: [(u32, f64, f64); 4] =
        [(1, 1.0, 3.0), (2, 0.7, 3.4), (3, 0.6, 3.9), (8, 0.595, 6.0)];

    #[test]
    fn the_narrowest_window_that_is_about_as_fast_is_taken() {
        let advice = of(&tuning(), &CURVE, 0);
        assert_eq!((advice.k, value(&advice, "question.k")), (3, "3"));
        // 0.62², and twice the look-ups at the upper bound.
        assert_eq!(value(&advice, "question.chance_min"), "0.38");
        assert_eq!(value(&advice, "question.budget_target_calls"), "8");
        // Nothing speaks against it but what always does.
        assert_eq!(advice.doubts.len(), 1, "{:?}", advice.doubts);
    }

    #[test]
    fn what_may_be_slower_is_not_recommended() {
        let mut tuning = tuning();
        tuning.p = estimate(0.1, 0.0, 0.4);
        let advice = of(&tuning, &[(1, 1.0, 3.0), (3, 0.97, 5.0)], 0);
        assert_eq!((advice.k, advice.settings.len()), (1, 2));
        assert!(advice.settings[0].why.contains("no wider window"));
    }

    #[test]
    fn what_is_unsure_is_said() {
        let mut tuning = tuning();
        tuning.nu = 2.0;
        tuning.p = None;
        let mut played = played(4, &CURVE);
        played.filled_in = 0.5;
        let curve = Curve::of(&tuning, &played).unwrap();
        let mut known = Known::of(&tuning, &played, 7);
        known.auto = Some((1, "no room".into()));
        let doubts = advice(&curve, &known).doubts.join("\n");
        for words in [
            "few questions: 4",
            "p is unknown",
            "50 % of the hops",
            "times vary much",
            "7 needed calls wait",
            "k = 1 now (no room)",
        ] {
            assert!(doubts.contains(words), "{words}: {doubts}");
        }
    }
}
