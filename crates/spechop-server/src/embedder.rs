//! Vectors for doors: those of the encoder that searches the index.

use std::sync::Arc;

use spechop_ports::{Call, Encoded, Encoder, Lane, Sparingly, TextKind};
use spechop_types::{Chance, with_causes};
use tokio::time::timeout;

use crate::caller::Caller;
use crate::finder::FindError;
use crate::server_state::ServerState;
use crate::status::AskError;

/// Texts of one call. Between two calls others have their turn.
const TEXTS_AT_ONCE: usize = 32;

/// Gives vectors to clients.
pub(crate) struct Embedder {
    state: Arc<ServerState>,
    encoder: Arc<dyn Encoder>,
    warnings: Sparingly,
}

impl Embedder {
    /// `None` if this server has no encoder to ask.
    pub(crate) fn open(state: &Arc<ServerState>) -> Option<Self> {
        Some(Self {
            encoder: Arc::clone(state.toolbox.encoder.as_ref()?),
            state: Arc::clone(state),
            warnings: Sparingly::default(),
        })
    }

    /// Number of components of every vector.
    pub(crate) fn width(&self) -> usize {
        self.encoder.width()
    }

    /// The vectors of these texts, in order. An error is written to the log here.
    pub(crate) async fn embed(
        &self,
        caller: &Caller,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, FindError> {
        let encoded = self.encode(caller, kind, texts).await;
        encoded.inspect_err(|error| {
            let reason = with_causes(error);
            match self.warnings.turn("embeddings") {
                Some(left_out) => tracing::warn!(reason, left_out, "no vectors"),
                None => tracing::debug!(reason, "no vectors"),
            }
        })
    }

    async fn encode(
        &self,
        caller: &Caller,
        kind: TextKind,
        mut texts: Vec<String>,
    ) -> Result<Encoded, FindError> {
        if self.state.phases.closing.is_cancelled() {
            return Err(AskError::ShuttingDown.into());
        }
        let _place = self.state.vectors.take(&caller.tenant)?;
        let limit = self.state.config().questions.limits.target;
        let mut all = Encoded {
            vectors: Vec::with_capacity(texts.len()),
            tokens: Some(0),
        };
        while !texts.is_empty() {
            let rest = texts.split_off(texts.len().min(TEXTS_AT_ONCE));
            let some = std::mem::replace(&mut texts, rest);
            let call = Call::of(caller.tenant.clone(), Lane::Authoritative, Chance::CERTAIN);
            let call = call.traced(caller.trace.clone());
            let work = self.encoder.encode(&call, kind, some);
            let some = tokio::select! {
                biased;
                () = self.state.phases.closed.cancelled() => return Err(AskError::ShuttingDown.into()),
                some = timeout(limit, work) => some.map_err(|_| FindError::Late { limit })??,
            };
            all.vectors.extend(some.vectors);
            all.tokens = all.tokens.zip(some.tokens).map(|(all, some)| all + some);
        }
        Ok(all)
    }
}
