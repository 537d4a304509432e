//! The branches of a question as lines: events in, text out, nothing else.

mod row;

use std::collections::BTreeMap;
use std::iter;

use spechop_proto::ask_event::Event;
use spechop_proto::{AskEvent, Refusal, Stage};

use self::row::{Row, State};
use super::line::{settled, why};
use crate::commands::clean::clean;

/// One line per branch and hop, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Board {
    rows: Vec<Row>,
    /// The states of the rows when another model began anew, if one did: they count again if that one fails.
    before: Option<Vec<State>>,
    /// Work that was not done ahead of need: how often, by reason.
    refused: BTreeMap<Refusal, u32>,
}

impl Board {
    /// Folds one event in.
    pub(super) fn apply(&mut self, event: &AskEvent) {
        let Some(kind) = &event.event else { return };
        match kind {
            Event::Tuned(_) => return,
            Event::HandedOver(_) => {
                self.hand_over();
                return;
            }
            Event::Answer(answer) => {
                if answer.handed_over.is_none() {
                    self.take_back();
                }
                return;
            }
            Event::NotSpeculated(refused) => {
                *self.refused.entry(refused.reason()).or_default() += 1;
            }
            _ => {}
        }
        let row = self.row(event);
        match kind {
            Event::Launched(launched) => match launched.stage() {
                Stage::Segment => row.state = State::Writing,
                Stage::Target => row.state = State::Running,
                Stage::Speculation | Stage::Draft | Stage::Unspecified => {}
            },
            Event::Planned(planned) => {
                row.sub_question = clean(&planned.sub_question);
            }
            Event::Drafted(drafted) => {
                row.state = State::Drafted;
                row.outcome = clean(&drafted.answer);
            }
            Event::Guessed(guessed) => row.guess = guessed.guess.as_deref().map(clean),
            Event::Salvaged(_) | Event::Foreseen(_) => row.state = State::Running,
            Event::Observed(observed) => {
                row.state = State::Observed;
                row.outcome = observed
                    .observation
                    .as_ref()
                    .map(|seen| clean(&seen.answer))
                    .unwrap_or_default();
            }
            Event::Committed(committed) => {
                row.state = State::Committed;
                row.outcome = committed.hop.as_ref().map(settled).unwrap_or_default();
            }
            Event::RolledBack(_) => row.state = State::RolledBack,
            Event::Failed(failed) if is_waited_for(failed.stage()) => {
                row.state = State::Failed;
                row.outcome = clean(&failed.reason);
            }
            // Nothing runs there until the answer needs it.
            Event::NotSpeculated(refused) if refused.reason() != Refusal::Unlikely => {
                let waits = match (row.state, refused.stage()) {
                    // As long as it has asked nothing, a look-up is that of a draft.
                    (State::Writing, Stage::Target) => !row.sub_question.is_empty(),
                    (State::Writing | State::Running, stage) => is_waited_for(stage),
                    _ => false,
                };
                if waits {
                    row.state = State::Held;
                }
            }
            Event::NotSpeculated(_)
            | Event::Failed(_)
            | Event::Verified(_)
            | Event::Promoted(_)
            | Event::AskedAhead(_)
            | Event::ProviderChanged(_)
            | Event::HandedOver(_)
            | Event::Answer(_)
            | Event::Tuned(_) => {}
        }
    }

    /// Another model begins anew: nothing so far counts.
    fn hand_over(&mut self) {
        let rows = self.rows.iter_mut();
        let states = rows.map(|row| std::mem::replace(&mut row.state, State::RolledBack));
        self.before = Some(states.collect());
    }

    /// If another model began anew, it has failed: only what was before it counts.
    fn take_back(&mut self) {
        let Some(before) = self.before.take() else {
            return;
        };
        let states = before.into_iter().chain(iter::repeat(State::RolledBack));
        for (row, state) in self.rows.iter_mut().zip(states) {
            row.state = state;
        }
    }

    /// The lines, as many as there are branches or more; `colour` adds ANSI colours.
    pub(super) fn lines(&self, colour: bool) -> Vec<String> {
        let rows = self.rows.iter().map(|row| row.line(colour));
        rows.chain(self.refused_line()).collect()
    }

    /// Why not everything was done ahead of need, in a line.
    fn refused_line(&self) -> Option<String> {
        let counted = |(reason, times): (&Refusal, &u32)| format!("{} ({times})", why(*reason));
        let reasons: Vec<_> = self.refused.iter().map(counted).collect();
        (!reasons.is_empty()).then(|| format!("not done ahead of need: {}", reasons.join(", ")))
    }

    fn row(&mut self, event: &AskEvent) -> &mut Row {
        let found = self
            .rows
            .iter()
            .position(|row| (row.branch, row.hop) == (event.branch, event.hop));
        let at = found.unwrap_or_else(|| {
            self.rows.push(Row {
                branch: event.branch,
                hop: event.hop,
                provisional: event.provisional,
                state: State::Writing,
                sub_question: String::new(),
                guess: None,
                outcome: String::new(),
            });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.provisional = event.provisional;
        row
    }
}

/// Whether the branch has to wait for such work.
fn is_waited_for(stage: Stage) -> bool {
    !matches!(stage, Stage::Speculation | Stage::Draft)
}

#[cfg(test)]
mod tests {
    use spechop_proto::{
        AskResponse, CommitKind, Committed, Drafted, Guessed, HandedOver, Hop, Launched,
        NotSpeculated, Observation, Observed, Planned, Promoted, RolledBack, Verdict, Verified,
    };

    use super::super::line::event_line;
    use super::row::PLAIN;
    use super::*;

    fn at(at_ms: f64, branch: u32, hop: u32, provisional: bool, event: Event) -> AskEvent {
        AskEvent {
            sequence: 0,
            at_ms,
            branch,
            hop,
            provisional,
            event: Some(event),
        }
    }

    fn launched(stage: Stage) -> Event {
        Event::Launched(Launched {
            stage: stage.into(),
        })
    }

    fn planned(text: &str) -> Event {
        Event::Planned(Planned {
            sub_question: text.into(),
            took_ms: 300.0,
        })
    }

    /// A wrong guess: the second branch is rolled back, a third one takes its place.
    fn story() -> Vec<AskEvent> {
        let observation = Some(Observation {
            answer: "Xawery Żuławski".into(),
            found: true,
            evidence: Vec::new(),
        });
        let hop = Hop {
            sub_question: "Who directed it?".into(),
            sub_answer: "Xawery Żuławski".into(),
            kind: CommitKind::Rejected.into(),
            guess: Some("Andrzej Wajda".into()),
            observation: observation.clone(),
            ..Hop::default()
        };
        let observed = Event::Observed(Observed {
            observation,
            took_ms: 4150.0,
        });
        let committed = Event::Committed(Committed {
            hop: Some(hop),
            usage: None,
        });
        let mother = planned("Who is the mother of Andrzej Wajda?");
        vec![
            at(0.0, 1, 1, false, launched(Stage::Segment)),
            at(300.0, 1, 1, false, planned("Who directed it?")),
            at(300.0, 1, 1, false, launched(Stage::Target)),
            at(300.0, 1, 1, false, launched(Stage::Speculation)),
            at(
                480.0,
                1,
                1,
                false,
                Event::Guessed(Guessed {
                    by: Some("memory".into()),
                    confidence: None,
                    guess: Some("Andrzej\n\u{1b}[2JWajda".into()),
                    took_ms: 180.0,
                    others: Vec::new(),
                }),
            ),
            at(480.0, 2, 2, true, launched(Stage::Segment)),
            at(780.0, 2, 2, true, mother),
            at(780.0, 2, 2, true, launched(Stage::Target)),
            at(4450.0, 1, 1, false, observed),
            at(
                4450.0,
                1,
                1,
                false,
                Event::Verified(Verified {
                    verdict: Some(Verdict {
                        accepted: false,
                        rule: "different".into(),
                        coverage: 0.0,
                        jaccard: 0.0,
                    }),
                }),
            ),
            at(4450.0, 1, 1, false, committed),
            at(4450.0, 2, 2, true, Event::RolledBack(RolledBack {})),
            at(4450.0, 3, 2, false, launched(Stage::Segment)),
            at(
                4750.0,
                3,
                2,
                false,
                Event::Drafted(Drafted {
                    answer: "Małgorzata Braunek".into(),
                    chance: 1.0,
                    took_ms: 300.0,
                }),
            ),
            at(4750.0, 3, 2, false, Event::Promoted(Promoted {})),
        ]
    }

    #[test]
    fn draws_a_line_for_each_branch() {
        let mut board = Board::default();
        let mut stages = Vec::new();
        for (count, event) in story().iter().enumerate() {
            board.apply(event);
            if [4, 7, 14].contains(&count) {
                stages.push(board.lines(false).join("\n"));
            }
        }
        insta::assert_snapshot!(stages.join("\n---\n"));
    }

    #[test]
    fn a_dropped_branch_says_how_far_it_came() {
        let dropped = |drafted: Option<&str>| {
            let mut board = Board::default();
            board.apply(&at(0.0, 2, 2, true, launched(Stage::Segment)));
            if let Some(answer) = drafted {
                let answer = answer.into();
                let took_ms = 9.0;
                let drafted = Event::Drafted(Drafted {
                    answer,
                    took_ms,
                    chance: 0.5,
                });
                let line = event_line(&at(9.0, 2, 2, true, drafted.clone()));
                assert!(line.is_some_and(|line| line.contains("Rome, chance 0.50")));
                board.apply(&at(9.0, 2, 2, true, drafted));
            }
            board.apply(&at(10.0, 2, 2, true, Event::RolledBack(RolledBack {})));
            board.lines(false).join("\n")
        };
        assert_eq!(dropped(None), "✗ hop 2 b2  nothing written yet");
        assert_eq!(dropped(Some("Rome")), "✗ hop 2 b2  answer  → Rome");
    }

    #[test]
    fn who_takes_over_leaves_nothing_of_what_was_committed() {
        let mut board = Board::default();
        story().iter().for_each(|event| board.apply(event));
        let over = Event::HandedOver(HandedOver { of_form: 0.062 });
        let over = at(4800.0, 4, 1, false, over);
        assert!(event_line(&over).is_some_and(|line| line.contains("the fallback (0.06)")));
        board.apply(&over);
        board.apply(&at(4800.0, 4, 1, false, launched(Stage::Segment)));
        let lines = board.lines(false);
        let (last, before) = lines.split_last().expect("lines");
        assert_eq!(last, "✎ hop 1 b4  writing the next step");
        assert!(
            before.iter().all(|line| line.starts_with('✗')),
            "{before:?}"
        );
    }

    #[test]
    fn if_who_took_over_fails_what_was_before_counts_again() {
        let handed_over = HandedOver { of_form: 0.062 };
        for by_other in [None, Some(handed_over)] {
            let mut board = Board::default();
            story().iter().for_each(|event| board.apply(event));
            let told = board.lines(false);
            let handed_over = Event::HandedOver(handed_over);
            board.apply(&at(4800.0, 4, 1, false, handed_over));
            board.apply(&at(4800.0, 4, 1, false, launched(Stage::Segment)));
            let is_kept = by_other.is_none();
            let answer = Event::Answer(AskResponse {
                handed_over: by_other,
                ..AskResponse::default()
            });
            board.apply(&at(5000.0, 0, 0, false, answer));
            let lines = board.lines(false);
            let (last, before) = lines.split_last().expect("lines");
            assert_eq!(before == told, is_kept, "{before:?}");
            assert_eq!(last.starts_with("✗ hop 1 b4"), is_kept, "{last}");
        }
    }

    #[test]
    fn colours_end_where_they_began() {
        let mut board = Board::default();
        story().iter().for_each(|event| board.apply(event));
        for (line, plain) in board.lines(true).iter().zip(board.lines(false)) {
            assert!(line.starts_with("\x1b[") && line.ends_with(PLAIN));
            assert!(line.contains(&plain));
        }
    }

    #[test]
    fn writes_a_line_for_each_event() {
        let lines: Vec<_> = story().iter().filter_map(event_line).collect();
        insta::assert_snapshot!(lines.join("\n"));
    }

    #[test]
    fn nothing_from_outside_steers_the_terminal() {
        let mut board = Board::default();
        for event in story() {
            board.apply(&event);
            let mut shown = board.lines(false);
            shown.extend(event_line(&event));
            assert!(shown.iter().all(|line| !line.contains(char::is_control)));
        }
    }

    fn refused(stage: Stage, reason: Refusal) -> Event {
        Event::NotSpeculated(NotSpeculated {
            stage: stage.into(),
            reason: reason.into(),
        })
    }

    #[test]
    fn a_refused_look_up_of_a_draft_is_not_the_end_of_writing() {
        let mut board = Board::default();
        let writes = "✎ hop 1 b1  writing the next step";
        for event in [
            launched(Stage::Segment),
            refused(Stage::Target, Refusal::Denied),
        ] {
            board.apply(&at(0.0, 1, 1, false, event));
            assert_eq!(board.lines(false)[0], writes);
        }
        // What it has asked is held, launched or not.
        let asked = planned("Who directed it?");
        for event in [asked, refused(Stage::Target, Refusal::Budget)] {
            board.apply(&at(300.0, 1, 1, false, event));
        }
        assert_eq!(board.lines(false)[0], "– hop 1 b1  Who directed it?");
    }

    #[test]
    fn says_in_a_line_why_not_everything_was_done_ahead_of_need() {
        let mut board = Board::default();
        for event in [
            at(480.0, 2, 2, true, launched(Stage::Segment)),
            at(780.0, 2, 2, true, launched(Stage::Target)),
            at(780.0, 2, 2, true, refused(Stage::Target, Refusal::Denied)),
            at(
                790.0,
                2,
                2,
                true,
                refused(Stage::Speculation, Refusal::Budget),
            ),
            at(800.0, 3, 3, true, launched(Stage::Target)),
            at(810.0, 3, 3, true, Event::RolledBack(RolledBack {})),
            at(810.0, 3, 3, true, refused(Stage::Target, Refusal::Denied)),
        ] {
            board.apply(&event);
        }
        let lines = board.lines(false);
        assert!(lines[0].starts_with("–?hop 2"), "{lines:?}");
        assert!(lines[1].starts_with("✗ hop 3"), "{lines:?}");
        assert_eq!(
            lines[2],
            "not done ahead of need: denied by policy (2), budget (1)"
        );
        // The look-up is made when it is needed.
        board.apply(&at(900.0, 2, 2, false, launched(Stage::Target)));
        assert!(board.lines(false)[0].starts_with("… hop 2"));
        let refused = refused(Stage::Target, Refusal::NoPlace);
        let line = event_line(&at(780.0, 2, 2, true, refused)).expect("a line");
        assert!(
            line.ends_with("– not looking up ahead of need: no free place"),
            "{line}"
        );
    }
}
