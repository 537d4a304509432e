//! What of a held prompt only branches have read, so that it goes when they are rolled back.

use spechop_ports::Fate;

/// Tokens that so many branches have used are of use to anybody.
const FATES_MAX: usize = 16;

/// Who has a stake in the tokens of a held prompt: from each of these places on, they are of use to these
/// branches alone. Ascending. Before the first place they are of use to anybody.
#[derive(Clone, Debug, Default)]
pub(super) struct Stakes(Vec<(usize, Vec<Fate>)>);

impl Stakes {
    /// Those of a prompt of which so many leading tokens are found here. The rest is read for a call of that
    /// fate, which then needs what it has found, too. What a call needs that no branch made is never dropped.
    pub(super) fn grown(&self, found: usize, fate: Option<&Fate>) -> Self {
        let Some(fate) = fate else {
            return Self::default();
        };
        let before = self.0.iter().filter(|(from, _)| *from < found);
        let shared = before.map(|(from, fates)| {
            let lives = |other: &&Fate| *other != fate && !other.is_rolled_back();
            let others = fates.iter().filter(lives);
            (*from, others.chain([fate]).cloned().collect())
        });
        let own = (found, vec![fate.clone()]);
        let all = shared.chain([own]);
        // Whoever stands on what lies behind has used what lies before it, too.
        let all = all.filter(|(_, fates): &(usize, Vec<Fate>)| fates.len() <= FATES_MAX);
        Self(all.collect())
    }

    /// How many leading tokens are still of use to somebody; `None` if all are.
    pub(super) fn needed(&self) -> Option<usize> {
        self.first_lost().map(|first| self.0[first].0)
    }

    /// Drops those of branches that are rolled back, and says the same.
    pub(super) fn cut(&mut self) -> Option<usize> {
        let needed = self.needed()?;
        self.0.truncate(self.first_lost()?);
        Some(needed)
    }

    fn first_lost(&self) -> Option<usize> {
        let is_lost = |(_, fates): &(usize, Vec<Fate>)| fates.iter().all(Fate::is_rolled_back);
        self.0.iter().position(is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_rolled_back_branches_have_read_is_of_no_use() {
        let [head, guessed, behind, beside] = [(); 4].map(|()| Fate::default());
        let of_head = Stakes::default().grown(50, Some(&head));
        let of_guessed = of_head.grown(80, Some(&guessed));
        let of_behind = of_guessed.grown(100, Some(&behind));
        // A sibling that begins with a few of the same tokens.
        let of_beside = of_guessed.grown(83, Some(&beside));
        let cut = |stakes: &Stakes| stakes.clone().cut();
        guessed.roll_back();
        assert_eq!(cut(&of_guessed), Some(80));
        // Those that stand on it are rolled back with it, one after the other.
        assert_eq!(cut(&of_behind), None);
        behind.roll_back();
        assert_eq!(cut(&of_behind), Some(80));
        assert_eq!(cut(&of_beside), None);
        beside.roll_back();
        assert_eq!(cut(&of_beside), Some(80));
        assert_eq!(cut(&of_head), None);
        // Once cut, it is known to be of use.
        let mut again = of_behind;
        assert_eq!((again.cut(), again.cut()), (Some(80), None));
    }

    #[test]
    fn what_many_have_used_is_of_use_to_anybody() {
        let branches = [(); 40].map(|()| Fate::default());
        let mut stakes = Stakes::default();
        for branch in &branches {
            stakes = stakes.grown(10, Some(branch));
            assert!(stakes.0.len() <= 2, "{stakes:?}");
            assert!(stakes.0.iter().all(|(_, fates)| fates.len() <= FATES_MAX));
        }
        // Those of rolled-back branches are not counted.
        let mut stakes = Stakes::default().grown(0, Some(&branches[0]));
        branches.iter().for_each(Fate::roll_back);
        for branch in &branches {
            stakes = stakes.grown(10, Some(branch));
        }
        assert_eq!(stakes.cut(), Some(0));
    }

    #[test]
    fn what_anybody_needs_is_not_dropped() {
        let branch = Fate::default();
        let mut used = Stakes::default().grown(0, Some(&branch)).grown(40, None);
        let mut twice = Stakes::default()
            .grown(0, Some(&branch))
            .grown(10, Some(&branch));
        branch.roll_back();
        assert_eq!((used.cut(), twice.cut()), (None, Some(0)));
    }
}
