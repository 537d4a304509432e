//! Several plans of one question, and the surest of them: best-of-n decoding of CoRAG (arXiv 2501.14342).
//!
//! ```text
//! greedy plan ──▶ read surely? ── yes ──▶ its answer
//!                     │ no
//!                     ├──▶ plan 1, drawn ─┐
//!                     ├──▶ plan 2, drawn ─┼─▶ the surest, if it is much surer
//!                     └──▶ …             ─┘
//! ```
//!
//! A plan that asks something that nobody should have asked finds nothing, or nothing that fits, and the
//! reader knows that. So how surely the hops of a plan were read tells good plans from bad ones, better than
//! how likely the planner found its words.
//!
//! Nothing is told of a plan before it is chosen: what is committed must not be taken back.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use spechop_ports::Planner;
use spechop_types::{Budget, Chance, Question};
use tokio::time::Instant;

use crate::{
    Agent, AgentError, Bill, Cost, Due, Journal, Ports, ProviderChanges, Report, Settings,
    TraceEvent,
};

/// A plan whose readings are on average (geometrically) this likely to be right is not searched for better ones.
const ENOUGH: f64 = 0.3;

/// A drawn plan is taken only if its readings are so many times likelier: the greedy plan is the best guess.
const MUCH: f64 = std::f64::consts::E;

/// Less than this is not told apart; what was not found counts so, too.
const LEAST: f64 = 1e-3;

impl Agent {
    /// Answers one question by the surest of several plans: its own planner's, and if that is not sure, one by
    /// each of `further`, side by side.
    ///
    /// The trace is that of the plan that was chosen, and told when it is. The calls of the others count as
    /// wasted. They share what the first plan leaves of the question's budget; if that is too little, the first
    /// plan's answer is taken. What the end of the budget would cut short is left out. If somebody wants the
    /// answer now, it is the first plan's.
    ///
    /// The journal has the calls of all plans. Those of plans that the trace does not tell of are of no branch.
    ///
    /// # Errors
    ///
    /// Those of [`Agent::answer`], of the first plan, whose trace is told by then. Others that fail are left out.
    pub async fn search(
        &self,
        further: &[Arc<dyn Planner>],
        question: &Question,
        settings: &Settings,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> Result<Report, AgentError> {
        let began = Instant::now();
        let mut heard = Vec::new();
        let hear = &mut |event| heard.push(event);
        let report = match self.answer(question, settings, hear).await {
            Ok(report) => report,
            Err(error) => {
                heard.into_iter().for_each(trace);
                return Err(error);
            }
        };
        let journal = settings.journal.clone();
        let mut chosen = Plan {
            report,
            heard,
            journal,
        };
        let is_sure = chosen.sureness(question) >= ENOUGH.ln();
        let (further, rest) = chosen.affordable(further, settings.budget);
        let plans = u32::try_from(further.len()).unwrap_or(u32::MAX);
        if let Some(budget) = rest.filter(|_| !is_sure && !settings.is_finish_asked()) {
            let settings = &Settings {
                budget,
                ..settings.clone()
            };
            let before = began.elapsed();
            let mut tab = Tab::of(&chosen.report, further.len(), settings, began);
            let mut changes = std::mem::take(&mut chosen.report.provider_changes);
            let mut later = vec![ProviderChanges::default(); further.len()];
            let others = self.others(further, question, settings, &tab.others, before, &mut later);
            let others = others.await;
            later.into_iter().for_each(|later| changes.extend(later));
            let least = chosen.sureness(question) + MUCH.ln();
            let sureness = |(_, plan): &(usize, Plan)| plan.sureness(question);
            let best = (others.into_iter()).max_by(|a, b| sureness(a).total_cmp(&sureness(b)));
            let better = best.filter(|best| sureness(best) > least);
            let mut dues = tab.pay();
            if let Some((at, better)) = better {
                dues[at] = Due::wasted(&chosen.report);
                chosen = better.behind(&chosen.report, before);
            }
            let report = &mut chosen.report;
            report.provider_changes = changes;
            dues.iter().for_each(|due| report.add_wasted(due));
            report.elapsed = began.elapsed();
            report.plans = plans.saturating_add(1);
        }
        chosen.heard.into_iter().for_each(trace);
        Ok(chosen.report)
    }

    /// The plans of the other planners that came to an end, by number. They begin so long after the question. What
    /// any of them has cost is on its bill, and its changes of provider are noted.
    async fn others(
        &self,
        further: &[Arc<dyn Planner>],
        question: &Question,
        settings: &Settings,
        bills: &[Bill],
        before: Duration,
        changes: &mut [ProviderChanges],
    ) -> Vec<(usize, Plan)> {
        let own_notes = |journal: &Journal| journal.further(before, None);
        let plans = further.iter().zip(bills).zip(changes).enumerate();
        let plans = plans.map(async |(at, ((planner, bill), changes))| {
            let agent = Self::new(Ports {
                planner: Arc::clone(planner),
                // It foresees the words of the first planner, and is to learn no others.
                drafter: None,
                draft_writer: None,
                ..self.ports().clone()
            });
            let settings = Settings {
                bill: Some(bill.clone()),
                finish: None,
                journal: settings.journal.as_ref().map(own_notes),
                ..settings.clone()
            };
            let mut heard = Vec::new();
            let hear = &mut |event: TraceEvent| {
                changes.hear(&event);
                heard.push(event);
            };
            let report = agent.answer_wholly(question, &settings, hear).await;
            let report = report.ok()?;
            bill.set(Due::wasted(&report));
            let journal = settings.journal;
            let plan = Plan {
                report,
                heard,
                journal,
            };
            Some((at, plan))
        });
        tokio::select! {
            biased;
            ended = join_all(plans) => ended.into_iter().flatten().collect(),
            () = settings.finish_asked() => Vec::new(),
        }
    }
}

/// A plan that was followed to its end.
struct Plan {
    report: Report,
    /// What happened on the way.
    heard: Vec<TraceEvent>,
    /// Where its calls are noted.
    journal: Option<Journal>,
}

impl Plan {
    /// The chosen one, which was begun behind a first one, so long after its question: its times count from the
    /// question, no branch has the number of one of the first, and what that has cost is not forgotten.
    fn behind(mut self, first: &Report, before: Duration) -> Self {
        let branches = first.branches;
        if let Some(journal) = &self.journal {
            journal.answers();
            journal.told_alone(branches);
        }
        self.report.first_answer.at += before;
        self.report.branches += branches;
        let spent = first.usage.all_wasted();
        let heard = self.heard.into_iter();
        self.heard = heard
            .map(|event| event.behind(before, branches, &spent))
            .collect();
        self
    }

    /// As many further plans as what this one leaves of a budget is enough for, and the part of each; `None`
    /// if it is enough for none.
    fn affordable<'a>(
        &self,
        further: &'a [Arc<dyn Planner>],
        budget: Budget,
    ) -> (&'a [Arc<dyn Planner>], Option<Budget>) {
        let rest = self.report.rest_of(budget);
        let enough = rest.map_or(0, |rest| self.times_within(rest));
        let further = &further[..further.len().min(enough)];
        let plans = u32::try_from(further.len()).unwrap_or(u32::MAX);
        let part = rest.filter(|_| plans > 0);
        (further, part.and_then(|rest| rest.shared_by(plans)))
    }

    /// How many plans like this one a budget is enough for. Each is taken to need as much as this one without
    /// its waste: one that its budget cuts short is never chosen.
    fn times_within(&self, budget: Budget) -> usize {
        let Report { hops, followed, .. } = &self.report;
        // Side by side, all of them have the same time.
        if budget.time.is_some_and(|time| time < *followed) {
            return 0;
        }
        let mut used = Cost::default();
        for calls in self.report.usage.every() {
            used.add(&calls.cost);
            used.subtract(&calls.cost_wasted);
        }
        let calls = hops.len().max(1) as u64;
        let times = |most: Option<u64>, each: u64| most?.checked_div(each);
        let enough = [
            times(budget.target_calls.map(u64::from), calls),
            times(budget.tokens, used.tokens.total()),
            times(budget.money.map(|money| money.0), used.money.0),
        ];
        let least = enough.into_iter().flatten().min();
        least.map_or(usize::MAX, |least| {
            usize::try_from(least).unwrap_or(usize::MAX)
        })
    }

    /// The logarithm of how likely its readings are to be right, on average. A reader that does not say so is
    /// taken for sure; an answer that nothing supports is not.
    fn sureness(&self, question: &Question) -> f64 {
        let hops = &self.report.hops;
        if hops.is_empty() || !self.report.confidence(question).supported {
            return LEAST.ln();
        }
        let read = hops.iter().map(|hop| &hop.hop.observation);
        let sure = read.map(|read| match (read.found, read.confidence) {
            (false, _) => LEAST,
            (true, said) => said.map_or(1.0, Chance::share).max(LEAST),
        });
        sure.map(f64::ln).sum::<f64>() / hops.len() as f64
    }
}

/// What is owed while further plans are followed: if the question is dropped meanwhile, all of it.
pub(crate) struct Tab<'a> {
    bill: Option<&'a Bill>,
    began: Instant,
    pub(crate) first: Due,
    pub(crate) others: Vec<Bill>,
}

impl<'a> Tab<'a> {
    pub(crate) fn of(
        first: &Report,
        others: usize,
        settings: &'a Settings,
        began: Instant,
    ) -> Self {
        Self {
            bill: settings.bill.as_ref(),
            began,
            first: Due::wasted(first),
            others: (0..others).map(|_| Bill::default()).collect(),
        }
    }

    /// What each of the others has cost. Nothing is owed any more: it stands in the report.
    pub(crate) fn pay(&mut self) -> Vec<Due> {
        self.bill = None;
        let bills = self.others.iter();
        bills.map(|bill| bill.take().unwrap_or_default()).collect()
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        let Some(bill) = self.bill.take() else {
            return;
        };
        let mut due = self.first;
        self.pay().iter().for_each(|other| due.add(other));
        due.elapsed = self.began.elapsed();
        bill.set(due);
    }
}

#[cfg(test)]
mod tests;
