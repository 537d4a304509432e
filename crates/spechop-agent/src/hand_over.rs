//! A question of a form that its planner was not made for, answered anew by another agent.

use spechop_types::{BranchId, Chance, Question};
use tokio::time::Instant;

use crate::report::PROVIDER_CHANGES_MAX;
use crate::search::Tab;
use crate::{Agent, AgentError, Due, Report, Settings, TraceEvent, TraceKind};

impl Agent {
    /// Answers anew a question that another agent has answered, as `first` says, and that is hardly
    /// (`of_form`) of a form that its planner was trained on.
    ///
    /// The first answer's calls count as wasted. The trace goes on behind that of the first answer: with
    /// [`TraceKind::HandedOver`], which takes back all hops that were committed, then with branches of higher
    /// numbers. If this agent fails, it says why; its calls are the wasted ones then, and `first` is the answer
    /// after all.
    ///
    /// Meant for questions without a budget: the second answer would need a second one.
    pub async fn take_over(
        &self,
        first: Report,
        of_form: Chance,
        question: &Question,
        settings: &Settings,
        trace: &mut (dyn FnMut(TraceEvent) + Send),
    ) -> (Report, Option<AgentError>) {
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
        let behind = &mut |event: TraceEvent| {
            trace(TraceEvent {
                at: before + event.at,
                branch: BranchId(branches + event.branch.0),
                ..event
            });
        };
        let mut tab = Tab::of(&first, 1, settings, began);
        let own = Settings {
            bill: tab.others.first().cloned(),
            // Its calls would have the numbers of the first answer's.
            journal: None,
            ..settings.clone()
        };
        let second = self.answer(question, &own, behind).await;
        let failed = tab.pay();
        match second {
            Ok(mut report) => {
                report.add_wasted(&Due::wasted(&first));
                report.elapsed += before;
                report.first_answer.at += before;
                report.branches += branches;
                report.handed_over = Some(of_form);
                let later = std::mem::replace(&mut report.provider_changes, first.provider_changes);
                report.provider_changes.extend(later);
                report.provider_changes.truncate(PROVIDER_CHANGES_MAX);
                (report, None)
            }
            Err(error) => {
                let mut report = first;
                for due in failed {
                    report.elapsed += due.elapsed;
                    report.add_wasted(&due);
                }
                (report, Some(error))
            }
        }
    }
}
