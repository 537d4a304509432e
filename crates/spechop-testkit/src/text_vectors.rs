//! An encoder without a model.

use std::time::Duration;

use async_trait::async_trait;
use spechop_ports::{Call, Encoded, Encoder, PortError, TextKind};

/// An encoder that is a function of the text, whatever the text is for. It costs nothing, and counts no
/// tokens.
#[derive(Clone, Copy, Debug)]
pub struct TextVectors<F = fn(&str) -> Vec<f32>> {
    fingerprint: &'static str,
    width: usize,
    vector: F,
}

impl<F: Fn(&str) -> Vec<f32> + Send + Sync> TextVectors<F> {
    /// `vector` gives each text a vector of this width.
    pub fn new(fingerprint: &'static str, width: usize, vector: F) -> Self {
        Self {
            fingerprint,
            width,
            vector,
        }
    }
}

impl TextVectors {
    /// All texts are alike, so that their words decide.
    pub fn alike() -> Self {
        Self::new("alike", 1, |_| vec![1.0])
    }

    /// Texts are as near as the letters that they have in common.
    pub fn letters() -> Self {
        Self::new("letters", 26, letters)
    }

    /// The same, but of each call `says` how long it takes, or why it fails.
    pub fn after(
        self,
        says: impl Fn(&Call, TextKind) -> Result<Duration, PortError> + Send + Sync,
    ) -> impl Encoder {
        Late {
            vectors: self,
            says,
        }
    }
}

/// Counts the letters of the alphabet, in either case, as a vector of length 1.
fn letters(text: &str) -> Vec<f32> {
    let mut counts = vec![0.0_f32; 26];
    for letter in text.to_lowercase().bytes().filter(u8::is_ascii_lowercase) {
        counts[usize::from(letter - b'a')] += 1.0;
    }
    let length = counts.iter().map(|n| n * n).sum::<f32>().sqrt();
    counts.into_iter().map(|n| n / length.max(1.0)).collect()
}

#[async_trait]
impl<F: Fn(&str) -> Vec<f32> + Send + Sync> Encoder for TextVectors<F> {
    fn fingerprint(&self) -> &str {
        self.fingerprint
    }

    fn width(&self) -> usize {
        self.width
    }

    async fn encode(
        &self,
        _: &Call,
        _: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        Ok(Encoded {
            vectors: texts.iter().map(|text| (self.vector)(text)).collect(),
            tokens: None,
        })
    }
}

struct Late<F> {
    vectors: TextVectors,
    says: F,
}

#[async_trait]
impl<F> Encoder for Late<F>
where
    F: Fn(&Call, TextKind) -> Result<Duration, PortError> + Send + Sync,
{
    fn fingerprint(&self) -> &str {
        self.vectors.fingerprint
    }

    fn width(&self) -> usize {
        self.vectors.width
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let time = (self.says)(call, kind)?;
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        self.vectors.encode(call, kind, texts).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn they_keep_the_contract() {
        spechop_ports::contract::encoder(&TextVectors::alike()).await;
        spechop_ports::contract::encoder(&TextVectors::letters()).await;
    }
}
