//! What the choice of a hop is weighed by: build on the guess, leave the answer open, or wait.
//!
//! A branch on a guess is of use if all guesses that it stands on are right: its *chance*. It then hides
//! as much time as its sub-question and look-up take, at most what is left of the call that is
//! guessed. If a guess is wrong, a target call was begun for nothing, and has its *price* in time. So
//! the branch is worth building if chance × time hidden ≥ (1 − chance) × price. What is not worth it
//! waits, or is left open if the policy plans ahead.
//!
//! The driver knows the clock, and asks for the least chance whenever a guess comes. A driver has
//! no say in it beyond that, so the simulator and the agent choose alike.

use spechop_types::Chance;

/// Most points of a [`ReliabilityCurve`], and most steps of [`Hidden`].
const POINTS: usize = 8;

/// What the choice of a hop is weighed by. [`Weighing::NONE`] weighs nothing: every guess is built upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighing {
    /// How much what a speculator says of its guesses is worth.
    pub calibration: ReliabilityCurve,
    /// What a target call that was begun for nothing costs, in milliseconds of the answer's time. 0: nothing,
    /// so that any chance is good enough.
    pub price_ms: u32,
    /// What a right guess hides.
    pub hidden: Hidden,
}

impl Weighing {
    /// Believes what speculators say, and takes calls for free.
    pub const NONE: Self = Self {
        calibration: ReliabilityCurve::AS_SAID,
        price_ms: 0,
        hidden: Hidden::NOTHING,
    };

    /// The least chance at which a branch is worth building on a guess that comes when its target call has
    /// run for so long, in milliseconds.
    pub fn least(&self, age_ms: f64) -> Chance {
        if self.price_ms == 0 {
            return Chance::NONE;
        }
        let price = f64::from(self.price_ms);
        Chance::of(price / (price + f64::from(self.hidden.after(age_ms))))
    }
}

/// How often guesses are right of which a speculator says how likely they are. Never falls: a guess
/// that is said to be likelier is taken for at least as likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReliabilityCurve(Points<Chance>);

impl ReliabilityCurve {
    /// As often as they say.
    pub const AS_SAID: Self = Self(Points::new(Chance::NONE));

    /// Of guesses that were said to be right in the first share of cases, the second share was. Between two
    /// points it goes straight, before the first and after the last one it is level. The order does
    /// not matter, what is beyond the eighth point is left out, and none at all is [`Self::AS_SAID`].
    pub fn through(points: impl IntoIterator<Item = (Chance, Chance)>) -> Self {
        let mut all = Points::of(points, Chance::NONE);
        let mut highest = Chance::NONE;
        for (_, right) in all.filled_mut() {
            highest = highest.max(*right);
            *right = highest;
        }
        Self(all)
    }

    /// How likely a guess is to be right that says so of itself.
    pub fn of(&self, said: Chance) -> Chance {
        let points = self.0.filled();
        let above = points.partition_point(|(at, _)| *at <= said);
        let below = above.checked_sub(1).and_then(|at| points.get(at));
        match (below, points.get(above)) {
            (None, None) => said,
            (None, Some((_, right))) | (Some((_, right)), None) => *right,
            (Some((from, low)), Some((to, high))) => {
                let (from, to) = (from.share(), to.share());
                let part = (said.share() - from) / (to - from);
                Chance::of(low.share() + part * (high.share() - low.share()))
            }
        }
    }
}

/// The time that a right guess is expected to hide, by how long the call has run that it guesses. In
/// milliseconds. It may rise: a call that has run for long may be one of those that run for very long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden(Points<u32>);

impl Hidden {
    /// Nothing at all.
    pub const NOTHING: Self = Self(Points::new(0));

    /// From the first time on, the second one is hidden; until then, as at the first step. At most eight
    /// steps, in any order.
    pub fn from_steps(steps: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self(Points::of(steps, 0))
    }

    /// What is hidden by a guess that comes when its call has run for so long.
    pub fn after(&self, age_ms: f64) -> u32 {
        let steps = self.0.filled();
        let begun = steps.partition_point(|(from, _)| f64::from(*from) <= age_ms);
        steps
            .get(begun.saturating_sub(1))
            .map_or(0, |(_, hidden)| *hidden)
    }
}

/// A few pairs in the order of their first halves, no two of which are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Points<T> {
    all: [(T, T); POINTS],
    len: usize,
}

impl<T: Copy + Ord> Points<T> {
    const fn new(none: T) -> Self {
        Self {
            all: [(none, none); POINTS],
            len: 0,
        }
    }

    fn of(pairs: impl IntoIterator<Item = (T, T)>, none: T) -> Self {
        let mut points = Self::new(none);
        for pair in pairs {
            let known = points.filled().iter().any(|(first, _)| *first == pair.0);
            if !known && points.len < POINTS {
                points.all[points.len] = pair;
                points.len += 1;
            }
        }
        points
            .filled_mut()
            .sort_unstable_by_key(|(first, _)| *first);
        points
    }

    fn filled(&self) -> &[(T, T)] {
        &self.all[..self.len]
    }

    fn filled_mut(&mut self) -> &mut [(T, T)] {
        &mut self.all[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_worth_what_such_guesses_were() {
        let chance = Chance::of;
        let known = [(0.8, 0.9), (0.1, 0.2), (0.4, 0.7), (0.5, 0.6)];
        let known =
            ReliabilityCurve::through(known.map(|(said, right)| (chance(said), chance(right))));
        for (said, right) in [
            (0.0, 0.2),
            (0.1, 0.2),
            (0.25, 0.45),
            (0.4, 0.7),
            // What is said to be likelier is not less likely.
            (0.45, 0.7),
            (0.5, 0.7),
            (0.65, 0.8),
            (1.0, 0.9),
        ] {
            assert_eq!(known.of(chance(said)), chance(right), "{said}");
        }
        assert_eq!(ReliabilityCurve::AS_SAID.of(chance(0.3)), chance(0.3));
        assert_eq!(ReliabilityCurve::through([]), ReliabilityCurve::AS_SAID);
        let many = (0..=20).map(|at| (chance(f64::from(at) / 20.0), chance(0.5)));
        assert_eq!(ReliabilityCurve::through(many).of(chance(0.9)), chance(0.5));
    }

    #[test]
    fn the_less_there_is_to_hide_the_likelier_a_guess_must_be() {
        let weighing = Weighing {
            price_ms: 1_000,
            hidden: Hidden::from_steps([(2_000, 0), (0, 3_000), (500, 1_000), (9_000, 4_000)]),
            ..Weighing::NONE
        };
        for (age_ms, least) in [
            (0.0, 0.25),
            (499.9, 0.25),
            (500.0, 0.5),
            (2_000.0, 1.0),
            // It has run for so long that it may run on.
            (10_000.0, 0.2),
        ] {
            assert_eq!(weighing.least(age_ms), Chance::of(least), "{age_ms}");
        }
        assert_eq!(Weighing::NONE.least(0.0), Chance::NONE);
        let late = Hidden::from_steps([(100, 50)]);
        assert_eq!((late.after(0.0), late.after(100.0)), (50, 50));
    }
}
