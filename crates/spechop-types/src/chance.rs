//! How likely something is.

use std::fmt;

/// A share of one, in millionths: whole numbers, so that the same news always opens the same gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chance(u32);

/// Finer than any speculator can tell, and coarse enough that a share reads back from an `f32`.
const WHOLE: u32 = 1_000_000;

impl Chance {
    /// It never happens.
    pub const NONE: Self = Self(0);
    /// It happens in one case of two: what is assumed of a guess about which nothing is known.
    pub const EVEN: Self = Self(WHOLE / 2);
    /// It always happens.
    pub const CERTAIN: Self = Self(WHOLE);

    /// Rounds to the nearest millionth, clamped to 0..=1. NaN becomes [`Chance::NONE`].
    pub fn of(share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to a million; a cast makes 0 of what is no number"
        )]
        Self((share.clamp(0.0, 1.0) * f64::from(WHOLE)).round() as u32)
    }

    /// [`Chance::of`] a share that must lie between 0 and 1.
    pub fn exactly(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then(|| Self::of(share))
    }

    /// From 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// From 0 to 1, for wire formats and hot paths that hold an `f32`. [`Chance::of`] reads the
    /// same chance back from it.
    pub fn share_f32(self) -> f32 {
        self.share() as f32
    }

    /// Both of two things that say nothing of each other. Rounded down, so that it is never more
    /// than either.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = u64::from(self.0) * u64::from(other.0) / u64::from(WHOLE);
        // Not more than either of them.
        Self(u32::try_from(both).unwrap_or(WHOLE))
    }

    /// `times` things of this chance that say nothing of each other, all of them.
    #[must_use]
    pub fn pow(self, times: u32) -> Self {
        if self == Self::CERTAIN {
            return self;
        }
        // Each factor takes a millionth at least: after so many nothing is left.
        (0..times.min(WHOLE)).fold(Self::CERTAIN, |all, _| all.and(self))
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.share().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_to_the_millionth() {
        for (share, chance) in [
            (0.0, Chance::NONE),
            (-1.0, Chance::NONE),
            (f64::NAN, Chance::NONE),
            (1e-7, Chance::NONE),
            (1.0, Chance::CERTAIN),
            (f64::INFINITY, Chance::CERTAIN),
            (0.7, Chance(700_000)),
            (f64::from(0.7_f32), Chance(700_000)),
        ] {
            assert_eq!(Chance::of(share), chance, "{share}");
        }
        for millionths in 0..=WHOLE {
            let chance = Chance(millionths);
            assert_eq!(Chance::of(chance.share()), chance);
            assert_eq!(Chance::of(f64::from(chance.share_f32())), chance);
        }
        assert_eq!(Chance::of(0.25).to_string(), "0.25");
    }

    #[test]
    fn what_depends_on_two_is_never_likelier_than_one() {
        assert_eq!(Chance::of(0.7).and(Chance::of(0.1)), Chance::of(0.07));
        assert_eq!(Chance::EVEN.pow(0), Chance::CERTAIN);
        assert_eq!(Chance::EVEN.pow(3), Chance::of(0.125));
        assert_eq!(Chance::EVEN.pow(u32::MAX), Chance::NONE);
        assert_eq!(Chance::CERTAIN.pow(u32::MAX), Chance::CERTAIN);
        let all = [0, 1, 7, 499_999, 500_000, 999_999, WHOLE].map(Chance);
        for a in all {
            assert_eq!(a.and(Chance::CERTAIN), a);
            assert_eq!(a.and(Chance::NONE), Chance::NONE);
            for b in all {
                assert_eq!(a.and(b), b.and(a));
                assert!(a.and(b) <= a);
            }
        }
    }
}
