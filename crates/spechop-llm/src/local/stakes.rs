//! What of a held prompt only branches have read, so that it goes when they are rolled back.

use spechop_ports::BranchFate;

/// Tokens that so many branches have used are of use to anybody.
const FATES_MAX: usize = 16;

/// Who has a stake in the tokens of a held prompt: from each of these places on, they are of use to these
/// branches alone. Ascending. Before the first place they are of use to anybody.
#[derive(Clone, Debug, Default)]
pub(super) struct Stakes(Vec<(usize, Vec<BranchFate>)>);

impl Stakes {
    /// Those of a prompt of which so many leading tokens are found here. The rest is read for a call of that
    /// fate, which then needs what it has found, too. What a call needs that no branch made is never dropped.
    pub(super) fn grown(&self, found: usize, fate: Option<&BranchFate>) -> Self {
        let Some(fate) = fate else {
            return Self::default();
        };
        let before = self.0.iter().filter(|(from, _)| *from < found);
        let shared = before.map(|(from, fates)| {
            let lives = |other: &&BranchFate| *other != fate && !other.is_rolled_back();
            let others = fates.iter().filter(lives);
            (*from, others.chain([fate]).cloned().collect())
        });
        let own = (found, vec![fate.clone()]);
        let all = shared.chain([own]);
        // Whoever stands on what lies behind has used what lies before it, too.
        let all = all.filter(|(_, fates): &(usize, Vec<BranchFate>)| fates.len() <= FATES_MAX);
        Self(all.collect())
    }

    /// Somebody else needs the first `until` tokens, too: those of these stakes, or anybody if there are none.
    pub(super) fn join(&mut self, others: &Self, until: usize) {
        if others.0.is_empty() {
            let inner = self.0.iter().rposition(|(from, _)| *from < until);
            if let Some(inner) = inner {
                self.0.drain(..inner);
                self.0[0].0 = until;
            }
            return;
        }
        let others = others.0.iter().flat_map(|(_, fates)| fates);
        for fate in others.filter(|fate| !fate.is_rolled_back()) {
            let before = self.0.iter_mut().filter(|(from, _)| *from < until);
            for (_, fates) in before.filter(|(_, fates)| !fates.contains(fate)) {
                fates.push(fate.clone());
            }
        }
        self.0.retain(|(_, fates)| fates.len() <= FATES_MAX);
    }

    /// How many leading tokens are still of use to somebody; `None` if all are.
    pub(super) fn needed(&self) -> Option<usize> {
        self.first_lost().map(|first| self.0[first].0)
    }

    /// Drops those of branches that are rolled back.
    pub(super) fn cut(&mut self) {
        if let Some(first) = self.first_lost() {
            self.0.truncate(first);
        }
    }

    fn first_lost(&self) -> Option<usize> {
        let is_lost =
            |(_, fates): &(usize, Vec<BranchFate>)| fates.iter().all(BranchFate::is_rolled_back);
        self.0.iter().position(is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_rolled_back_branches_have_read_is_of_no_use() {
        let [head, guessed, behind, beside] = [(); 4].map(|()| BranchFate::default());
        let of_head = Stakes::default().grown(50, Some(&head));
        let of_guessed = of_head.grown(80, Some(&guessed));
        let of_behind = of_guessed.grown(100, Some(&behind));
        // A sibling that begins with a few of the same tokens.
        let of_beside = of_guessed.grown(83, Some(&beside));
        let cut = Stakes::needed;
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
        again.cut();
        assert_eq!(again.needed(), None);
    }

    #[test]
    fn what_many_have_used_is_of_use_to_anybody() {
        let branches = [(); 40].map(|()| BranchFate::default());
        let mut stakes = Stakes::default();
        for branch in &branches {
            stakes = stakes.grown(10, Some(branch));
            assert!(stakes.0.len() <= 2, "{stakes:?}");
            assert!(stakes.0.iter().all(|(_, fates)| fates.len() <= FATES_MAX));
        }
        // Those of rolled-back branches are not counted.
        let mut stakes = Stakes::default().grown(0, Some(&branches[0]));
        branches.iter().for_each(BranchFate::roll_back);
        for branch in &branches {
            stakes = stakes.grown(10, Some(branch));
        }
        assert_eq!(stakes.needed(), Some(0));
    }

    #[test]
    fn what_others_need_is_not_dropped_either() {
        let [head, guessed, other] = [(); 3].map(|()| BranchFate::default());
        let of_guessed = Stakes::default()
            .grown(0, Some(&head))
            .grown(60, Some(&guessed));
        let mut joined = of_guessed.clone();
        joined.join(&Stakes::default().grown(0, Some(&other)), 80);
        let mut by_anybody = of_guessed.clone();
        by_anybody.join(&Stakes::default(), 80);
        let mut before = of_guessed;
        before.join(&Stakes::default(), 40);
        guessed.roll_back();
        assert_eq!(
            [&joined, &by_anybody, &before].map(Stakes::needed),
            [None, Some(80), Some(60)]
        );
        other.roll_back();
        assert_eq!(joined.needed(), Some(60));
        head.roll_back();
        assert_eq!(
            [&joined, &by_anybody, &before].map(Stakes::needed),
            [Some(0), Some(80), Some(40)]
        );
    }

    #[test]
    fn what_anybody_needs_is_not_dropped() {
        let branch = BranchFate::default();
        let used = Stakes::default().grown(0, Some(&branch)).grown(40, None);
        let twice = Stakes::default()
            .grown(0, Some(&branch))
            .grown(10, Some(&branch));
        branch.roll_back();
        assert_eq!((used.needed(), twice.needed()), (None, Some(0)));
    }
}
