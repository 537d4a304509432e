//! A question of a form that its planner was not made for, answered anew by another agent.

use spechop_types::{BranchId, Chance, Question};
use tokio::time::Instant;

use crate::search::Tab;
use crate::{Agent, AgentError, Journal, ProviderChanges, Report, Settings, TraceEvent, TraceKind};

impl Agent {
    /// Answers anew a question that another agent has answered, as `first` says, and that is hardly
    /// (`of_form`) of a form that its planner was trained on.
    ///
    /// The first answer's calls count as wasted. The trace goes on behind that of the first answer: with
    /// [`TraceKind::HandedOver`], which takes back all hops that were committed, then with branches of higher
    /// numbers. If this agent fails, it says why; its calls are the wasted ones then, and `first` is the answer
    /// after all. So it is if somebody wants the answer now, and nothing has failed then.
    ///
    /// The second answer has what the first one leaves of the question's budget. If that is nothing, or is used
    /// up before the second answer is whole, `first` is the answer.
    pub async fn take_over(
        &self,
        first: Report,
        of_form: Chance,
        question: &Question,
        settings: &Settings,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> (Report, Option<AgentError>) {
        let Some(budget) = first.rest_of(settings.budget) else {
            return (first, None);
        };
        let now = Instant::now();
        let began = now.checked_sub(first.elapsed).unwrap_or(now);
        let (before, branches) = (first.elapsed, first.branches);
        trace(TraceEvent {
            at: before,
            branch: BranchId(branches),
            hop: 1,
            provisional: false,
            kind: TraceKind::HandedOver { of_form },
        });
        let mut tab = Tab::of(&first, 1, settings, began);
        let mut changes = ProviderChanges::default();
        let behind = &mut |event: TraceEvent| {
            changes.hear(&event);
            trace(event.behind(before, branches, &tab.first.usage));
        };
        let own_notes = |journal: &Journal| journal.further(before, Some(branches));
        let own = Settings {
            bill: tab.others.first().cloned(),
            journal: settings.journal.as_ref().map(own_notes),
            // Then the answer that is there is taken.
            finish: None,
            budget,
            ..settings.clone()
        };
        let second = tokio::select! {
            biased;
            ended = self.answer_wholly(question, &own, behind) => Some(ended),
            () = settings.finish_asked() => None,
        };
        let given_up = tab.pay();
        let failed = match second {
            Some(Ok(mut report)) => {
                report.add_wasted(&tab.first);
                if let Some(journal) = &own.journal {
                    journal.answers();
                }
                report.elapsed += before;
                report.first_answer.at += before;
                report.branches += branches;
                report.handed_over = Some(of_form);
                report.plans = first.plans;
                let later = std::mem::replace(&mut report.provider_changes, first.provider_changes);
                report.provider_changes.extend(later);
                return (report, None);
            }
            Some(Err(failed)) => failed,
            None => None,
        };
        let mut report = first;
        for due in given_up {
            report.elapsed += due.elapsed;
            report.add_wasted(&due);
        }
        report.provider_changes.extend(changes);
        (report, failed)
    }
}
