//! The stream of a question: its events in order, the answer or an error last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};
use prost::Message;
use spechop_agent::TraceEvent;
use spechop_proto::ask_event::Event;
use spechop_proto::{AskEvent, AskResponse};
use tracing::Instrument;

use crate::admission::{Admission, Admitted};
use crate::caller::Caller;
use crate::questions::{Forsaken, Found, Log, OffTheLog, Question, READERS_MAX};
use crate::reply;
use crate::server_state::ServerState;
use crate::status::AskError;

/// The events of one question, for one reader. When the last reader of a question is dropped, the
/// question ends, at once or after the time that its client has named (`linger_ms`).
///
/// The question keeps its place until its readers have taken its last event: a client that does not read
/// must not have the next question answered as well. A reader that takes nothing for `server.unread_ms`
/// although something waits is cut off.
pub(crate) struct Events {
    state: Arc<ServerState>,
    question: Arc<Question>,
    reader: u64,
    is_over: bool,
}

/// Answers a question without telling its events. If its client may come back to it, it is answered in a
/// task of its own, as for a stream. Otherwise it is part of this future.
pub(crate) async fn answer(admitted: Admitted) -> Result<AskResponse, Arc<AskError>> {
    if admitted.may_be_followed {
        return Events::of(admitted)?.answer().await;
    }
    admitted.answer().await.map_err(Arc::new)
}

impl Events {
    /// Begins to answer, in a task of its own: a stream is not polled while its reader is slow, and a
    /// slow reader must not slow the question. Errors are counted and written to the log here.
    pub(crate) fn of(admitted: Admitted) -> Result<Self, Arc<AskError>> {
        let state = Arc::clone(&admitted.state);
        let question = Arc::clone(&admitted.opened.question);
        let reader = question.log.attach(0);
        let reader = reader.map_err(|off| Arc::new(refused(off, &question)))?;
        let events = Self::read_by(&state, &question, reader);
        let questions = Arc::clone(&state.questions);
        let span = admitted.span();
        questions.spawn(Box::pin(tell(admitted, state).instrument(span)));
        Ok(events)
    }

    /// The events of a question of this caller that come after a number.
    pub(crate) fn resume(
        admission: &Admission,
        question_id: &str,
        after: u64,
        caller: &Caller,
    ) -> Result<Self, AskError> {
        Self::follow(admission, question_id, caller, |log| log.attach(after))
    }

    /// The end of a question of this caller, and what happens until then.
    pub(crate) fn last(
        admission: &Admission,
        question_id: &str,
        caller: &Caller,
    ) -> Result<Self, AskError> {
        Self::follow(admission, question_id, caller, Log::attach_last)
    }

    fn follow(
        admission: &Admission,
        question_id: &str,
        caller: &Caller,
        attach: impl FnOnce(&Log) -> Result<u64, OffTheLog>,
    ) -> Result<Self, AskError> {
        let (state, question) = (admission.state(), admission.known(question_id, caller)?);
        let reader = attach(&question.log).map_err(|off| refused(off, &question));
        let reader = reader.inspect_err(|error| state.refuse(error))?;
        Ok(Self::read_by(state, &question, reader))
    }

    fn read_by(state: &Arc<ServerState>, question: &Arc<Question>, reader: u64) -> Self {
        Self {
            state: Arc::clone(state),
            question: Arc::clone(question),
            reader,
            is_over: false,
        }
    }

    /// The name of the question.
    pub(crate) fn name(&self) -> &str {
        self.question.id.item.as_str()
    }

    /// Waits for the answer, whatever happens before.
    pub(crate) async fn answer(mut self) -> Result<AskResponse, Arc<AskError>> {
        while let Some(event) = self.next().await {
            if let Some(Event::Answer(answer)) = &event?.event {
                return Ok(answer.clone());
            }
        }
        Err(Arc::new(AskError::Lost))
    }
}

fn refused(off: OffTheLog, question: &Question) -> AskError {
    match off {
        OffTheLog::Forgotten => AskError::NotOpen(question.id.item.clone()),
        OffTheLog::Behind { after, first } => AskError::TooOld { after, first },
        OffTheLog::Ahead { last } => {
            let problem = format!("is beyond the last event, which is {last}");
            AskError::wrong("after", problem)
        }
        OffTheLog::TooManyReaders => AskError::TooManyReaders { most: READERS_MAX },
    }
}

impl Stream for Events {
    type Item = Result<Arc<AskEvent>, Arc<AskError>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let error = match ready!(self.question.log.poll_next(self.reader, context)) {
            Found::Event(event) => {
                self.is_over = matches!(event.event, Some(Event::Answer(_)));
                return Poll::Ready(Some(Ok(event)));
            }
            Found::Over => {
                self.is_over = true;
                return Poll::Ready(None);
            }
            Found::Failed(error) => error,
            Found::Unread => Arc::new(self.state.unread()),
            Found::Off(off) => Arc::new(refused(off, &self.question)),
        };
        self.is_over = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.question.log.detach(self.reader);
    }
}

/// Answers a question and tells its log everything.
async fn tell(admitted: Admitted, state: Arc<ServerState>) {
    let question = Arc::clone(&admitted.opened.question);
    let log = &question.log;
    let push = |event: AskEvent, is_last| {
        state.questions.make_room(event.encoded_len());
        log.push(event, is_last);
    };
    let (unread, linger) = (state.config().server.unread, admitted.linger);
    let mut sequence = 0;
    if let Some(tuned) = admitted.tuned.clone() {
        sequence += 1;
        push(reply::tuned_event(sequence, tuned), false);
    }
    let mut trace = |event: TraceEvent| {
        sequence += 1;
        push(reply::event(sequence, &event), false);
    };
    let stop = async {
        match log.forsaken(unread, linger).await {
            Forsaken::Unread => state.unread(),
            Forsaken::Away if linger.is_zero() => AskError::Cancelled,
            Forsaken::Away => AskError::Alone { linger },
        }
    };
    let answered = Box::pin(admitted.followed(&mut trace, stop)).await;
    // Whoever has cancelled it may ask what became of it, but nobody who has gone away.
    let is_cancelled = question.cancel.is_cancelled();
    let is_kept = is_cancelled || !matches!(answered.answer, Err(AskError::Cancelled));
    // The log has heard of its readers then.
    let is_unread = matches!(answered.answer, Err(AskError::Unread { .. }));
    match answered.answer {
        Ok(answer) => push(reply::answer_event(sequence + 1, answer), true),
        Err(error) => {
            state.refuse(&error);
            log.failed(Arc::new(error));
        }
    }
    if is_kept {
        answered.opened.keep();
    } else {
        drop(answered.opened);
    }
    let _place = answered.place;
    tokio::select! {
        cut_off = log.read_up(unread) => if cut_off && !is_unread {
            state.refuse(&state.unread());
        },
        // Clients may still read for as long as the server is there.
        () = state.phases.closed.cancelled() => {}
    }
}
