//! Work ahead of need that was not done, or not to its end: counted, and told with the reason.

use spechop_ports::Lane;
use spechop_types::{BranchId, Refusal, Stage, Tokens};
use spechop_window::WeighedGuess;

use super::Run;
use crate::ledger::{Open, Taken};
use crate::running::Dropped;
use crate::stages::Work;
use crate::{TraceKind, Usage};

impl Run<'_> {
    /// Why no target call may be made ahead of need; `None` if it may.
    pub(super) fn may_not_look_ahead(&self) -> Option<Refusal> {
        if self.settings.wishes.quiet {
            Some(Refusal::Denied)
        } else if !self.may_speculate() {
            Some(Refusal::Budget)
        } else {
            None
        }
    }

    /// Whether the budget has anything to spare for work that may be wasted.
    pub(super) fn may_speculate(&self) -> bool {
        let committed = u32::try_from(self.committed()).unwrap_or(u32::MAX);
        let hops_left = self.settings.hops_max.saturating_sub(committed);
        // The head's own look-up is among the calls as soon as it has asked.
        let head = self.window.alive().next();
        let is_to_ask = head.is_some_and(|head| self.window.lookup(head).is_none());
        let hops_left = hops_left.saturating_add(u32::from(is_to_ask));
        let open = self.running.open(Lane::Speculative);
        self.ledger.may_speculate(hops_left, open)
    }

    /// Work of a branch was refused before it was launched.
    pub(super) fn refuse(&mut self, branch: BranchId, stage: Stage, why: Refusal) {
        self.ledger.refuse(stage, why);
        self.tell(branch, TraceKind::NotSpeculated { stage, why });
    }

    /// Work was refused after its launch; whoever gives the turns says why.
    pub(super) fn take_refusal(&mut self, work: Work, taken: Taken, why: Refusal) {
        match why {
            // Some of it was done, and paid for.
            Refusal::Preempted | Refusal::PushedBack if !taken.never_began => {
                let cost = self.ledger.settle(work.stage(), taken);
                self.pay_for_early(work, cost);
            }
            Refusal::Denied
            | Refusal::NoPlace
            | Refusal::NoCore
            | Refusal::Preempted
            | Refusal::PushedBack
            | Refusal::Budget
            | Refusal::Unlikely => {
                self.withdraw(work, taken.tokens);
            }
        }
        self.note_refusal(work, why);
    }

    /// Work was dropped, for it is of no use any more.
    pub(super) fn note_dropped(&mut self, dropped: Dropped) {
        self.pay_dropped(dropped.work, dropped.taken);
        if let Some(why) = dropped.waited_in_vain {
            self.note_refusal(dropped.work, why);
        }
        self.tell_changes(dropped.work, dropped.changes);
    }

    /// Work was given up before its end: what it took is paid for, if anything of it ran.
    pub(super) fn pay_dropped(&mut self, work: Work, taken: Taken) {
        if taken.never_began {
            return self.withdraw(work, taken.tokens);
        }
        let cost = match taken.was_in_line {
            true => self.ledger.settle(work.stage(), taken),
            false => self.ledger.abort(work.stage(), taken),
        };
        self.pay_for_early(work, cost);
    }

    /// Nothing of it was ever done: it is as if it had not been launched.
    fn withdraw(&mut self, work: Work, spent: Tokens) {
        self.ledger.withdraw(work.stage(), spent);
        let Work::Target(lookup) = work else {
            return;
        };
        let Some(notes) = self.lookups.get_mut(lookup) else {
            return;
        };
        // Once: made again by need, it is no draft's any more.
        if !std::mem::take(&mut notes.drafted) {
            return;
        }
        let (writer, _) = notes.asker;
        let saved = notes.foreseen.as_mut().map(std::mem::take);
        self.ledger.withdraw_draft();
        if let Some(saved) = saved {
            self.ledger.unforesee(saved);
        } else if let Some(writer) = self.branches.get_mut(writer) {
            // A draft that nobody looked up has not failed, either. One that was asked for has held.
            writer.drafted = writer.drafted.saturating_sub(1);
        }
    }

    /// What has been started so far. What still waits for its first turn has not been.
    pub(super) fn usage_so_far(&self) -> Box<Usage> {
        let mut in_line = Open::default();
        let (mut drafted, mut foreseen) = (0, 0);
        for work in self.running.in_line() {
            in_line.add(work.stage());
            if let Work::Target(lookup) = work
                && let Some(notes) = self.lookups.get(lookup)
                && notes.drafted
            {
                drafted += 1;
                foreseen += u32::from(notes.foreseen.is_some());
            }
        }
        let mut usage = self.ledger.usage(in_line);
        usage.drafted = usage.drafted.saturating_sub(drafted);
        usage.foreseen = usage.foreseen.saturating_sub(foreseen);
        usage
    }

    /// The gate keeps branches from being built upon some of these guesses.
    pub(super) fn tell_unlikely(&mut self, branch: BranchId, guesses: &[WeighedGuess]) {
        let gated = guesses
            .iter()
            .filter(|guess| !self.window.is_likely_enough(branch, guess));
        for _ in 0..gated.count() {
            self.refuse(branch, Stage::Segment, Refusal::Unlikely);
        }
    }

    fn note_refusal(&mut self, work: Work, why: Refusal) {
        let stage = work.stage();
        self.ledger.refuse(stage, why);
        let for_load = matches!(
            why,
            Refusal::NoPlace | Refusal::NoCore | Refusal::Preempted | Refusal::PushedBack
        );
        if for_load
            && let Work::Speculation(lookup) = work
            && let Some(notes) = self.lookups.get_mut(lookup)
        {
            notes.guess_refused = true;
        }
        let asker = match work {
            Work::Segment(branch) | Work::Draft(branch, _) => Some((branch, self.hop(branch))),
            Work::Target(lookup) | Work::Speculation(lookup) => {
                let noted = self.lookups.get(lookup).map(|notes| notes.asker);
                self.asker(lookup).or(noted)
            }
        };
        let Some((branch, hop)) = asker else {
            return;
        };
        // The guess of the head's own hop can be refused, too, and the head stands on none. The window may have
        // committed that hop by now, or the head had to go because the answer is wanted.
        let notes = self.branches.get(branch);
        let was_head = notes.is_some_and(|notes| notes.is_head) || self.last_head == Some(branch);
        let is_provisional = self.window.depth(branch) != Some(0) && !was_head;
        let kind = TraceKind::NotSpeculated { stage, why };
        self.tell_as(branch, hop, is_provisional, kind);
    }
}
