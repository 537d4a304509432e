//! A text encoder behind HTTP: OpenAI's `/v1/embeddings`, which many servers speak, or
//! text-embeddings-inference's own `/embed`.

use std::num::NonZeroUsize;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::json;
use spechop_ports::{Call, Encoded, Encoder, PortError, TextKind, reason};
use spechop_types::Activity;

use crate::http::InvalidHttpEndpoint;
use crate::service::{Service, ServiceOptions};

/// What such a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingForm {
    /// `{"model":…,"input":[…]}` → `{"data":[{"index":0,"embedding":[…]}…]}`.
    OpenAi,
    /// text-embeddings-inference: `{"inputs":[…],"truncate":true}` → `[[…]…]`. It serves one model.
    Tei,
}

/// No number of an answer is longer, with its comma and blanks.
const NUMBER_BYTES_MAX: usize = 32;
/// What an answer says around the numbers of a vector.
const VECTOR_BYTES: usize = 1024;

/// A text of no more bytes is too long for no model.
const TEXT_BYTES_MIN: usize = 256;

/// How to ask an encoder over HTTP.
#[derive(Clone, Debug)]
pub struct HttpEncoderOptions {
    /// Its whole address, e.g. `http://10.0.0.7:8080/v1/embeddings`. An answer may be as long as `batch` vectors of
    /// `width` numbers are, whatever the endpoint says.
    pub service: ServiceOptions,
    /// What it speaks.
    pub form: EmbeddingForm,
    /// The model's name. An index built with one name is refused under another, wherever the server is.
    pub model: String,
    /// Number of components of every vector.
    pub width: NonZeroUsize,
    /// Put before every query.
    pub query_prefix: String,
    /// Put before every passage.
    pub passage_prefix: String,
    /// Most texts of a request.
    pub batch: NonZeroUsize,
    /// Most requests at once for a list of passages. A server that asks for less is heard besides.
    pub at_once: NonZeroUsize,
}

impl HttpEncoderOptions {
    /// As E5 wants its texts; 32 texts a request, four requests at once.
    pub fn new(
        url: impl Into<String>,
        form: EmbeddingForm,
        model: impl Into<String>,
        width: NonZeroUsize,
    ) -> Self {
        const BATCH: NonZeroUsize = NonZeroUsize::new(32).unwrap();
        const AT_ONCE: NonZeroUsize = NonZeroUsize::new(4).unwrap();
        Self {
            service: ServiceOptions::new("encoder", url),
            form,
            model: model.into(),
            width,
            query_prefix: "query: ".to_owned(),
            passage_prefix: "passage: ".to_owned(),
            batch: BATCH,
            at_once: AT_ONCE,
        }
    }

    /// Names the model and its treatment of texts. Everything that changes vectors is in it; where the
    /// server is, is not.
    fn fingerprint(&self) -> String {
        format!(
            "{} over HTTP ({:?}), {} wide, {:?}, {:?}",
            self.model, self.form, self.width, self.query_prefix, self.passage_prefix
        )
    }
}

/// An encoder over HTTP.
#[derive(Debug)]
pub struct HttpEncoder {
    service: Service,
    options: HttpEncoderOptions,
    fingerprint: String,
}

impl HttpEncoder {
    /// Checks the options; connects to nothing yet.
    pub fn new(mut options: HttpEncoderOptions) -> Result<Self, InvalidHttpEndpoint> {
        let most = &mut options.service.endpoint.body_bytes_max;
        let vector = options.width.get().saturating_mul(NUMBER_BYTES_MAX);
        let vector = vector.saturating_add(VECTOR_BYTES);
        *most = options.batch.get().saturating_mul(vector).max(*most);
        Ok(Self {
            service: Service::new(&options.service)?,
            fingerprint: options.fingerprint(),
            options,
        })
    }

    /// The vectors of a few texts. Many servers of OpenAI's form cut nothing, and refuse a request for one text that is
    /// too long. Then each text is sent by itself: its vector must not depend on its company.
    async fn encode_few(&self, call: &Call, texts: &[String]) -> Result<Encoded, PortError> {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let is_long = |text: &&str| text.len() > TEXT_BYTES_MIN;
        match self.request(call, &texts).await {
            Err(PortError::TooLong { .. } | PortError::Refused { .. })
                if self.options.form == EmbeddingForm::OpenAi && texts.iter().any(is_long) => {}
            outcome => return outcome,
        }
        let mut all = NONE;
        for text in texts {
            all = joined(all, self.encode_beginning(call, text).await?);
        }
        Ok(all)
    }

    /// The vector of a text, or of its first half, or of the half of that, as the server takes it.
    async fn encode_beginning(&self, call: &Call, mut text: &str) -> Result<Encoded, PortError> {
        loop {
            match self.request(call, &[text]).await {
                Err(PortError::TooLong { .. } | PortError::Refused { .. })
                    if text.len() > TEXT_BYTES_MIN =>
                {
                    (text, _) = text.split_at(text.floor_char_boundary(text.len() / 2));
                }
                outcome => return outcome,
            }
        }
    }

    /// One request.
    async fn request(&self, call: &Call, texts: &[&str]) -> Result<Encoded, PortError> {
        let HttpEncoderOptions { form, model, .. } = &self.options;
        let body = match form {
            EmbeddingForm::OpenAi => {
                json!({ "model": model, "input": texts, "encoding_format": "float" })
            }
            EmbeddingForm::Tei => json!({ "inputs": texts, "normalize": true, "truncate": true }),
        };
        let _encoding = call.doing(Activity::Encode);
        let (width, count) = (self.options.width.get(), texts.len());
        let parse = |body: &[u8]| {
            let Encoded { vectors, tokens } = read(*form, body)?;
            let vectors = unit_vectors(vectors, count, width)?;
            Ok(Encoded { vectors, tokens })
        };
        self.service.post(call, &[], &body, parse).await
    }

    /// As many requests as it takes.
    async fn encode_all(
        &self,
        call: &Call,
        prefix: &str,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let batches: Vec<_> = texts
            .chunks(self.options.batch.get())
            .map(|batch| self.encode_few(call, batch))
            .collect();
        stream::iter(batches)
            .buffered(self.options.at_once.get())
            .try_fold(NONE, async |all, more| Ok(joined(all, more)))
            .await
    }
}

#[async_trait]
impl Encoder for HttpEncoder {
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn width(&self) -> usize {
        self.options.width.get()
    }

    async fn encode(
        &self,
        call: &Call,
        kind: TextKind,
        texts: Vec<String>,
    ) -> Result<Encoded, PortError> {
        let prefix = match kind {
            TextKind::Query => &self.options.query_prefix,
            TextKind::Passage => &self.options.passage_prefix,
        };
        self.encode_all(call, prefix, texts).await
    }
}

/// The vectors of no text.
const NONE: Encoded = Encoded {
    vectors: Vec::new(),
    tokens: Some(0),
};

/// Those of both, in order.
fn joined(mut all: Encoded, more: Encoded) -> Encoded {
    all.vectors.extend(more.vectors);
    all.tokens = all.tokens.zip(more.tokens).map(|(all, more)| all + more);
    all
}

/// The vectors of an answer, in the order of the texts, and their tokens if the server has counted them.
fn read(form: EmbeddingForm, body: &[u8]) -> Result<Encoded, String> {
    #[derive(Deserialize)]
    struct Answer {
        data: Vec<One>,
        usage: Option<Usage>,
    }
    #[derive(Deserialize)]
    struct Usage {
        prompt_tokens: Option<u64>,
    }
    #[derive(Deserialize)]
    struct One {
        index: Option<usize>,
        embedding: Vec<f32>,
    }
    // It quotes what it has found, such as thousands of numbers in one text.
    let wrong = |error: serde_json::Error| {
        let said = reason(error.to_string().as_bytes(), None);
        format!("no vectors: {said}")
    };
    match form {
        EmbeddingForm::Tei => Ok(Encoded {
            vectors: serde_json::from_slice(body).map_err(wrong)?,
            tokens: None,
        }),
        EmbeddingForm::OpenAi => {
            let answer: Answer = serde_json::from_slice(body).map_err(wrong)?;
            // Servers may answer in any order, and say which is which.
            let data = answer.data.into_iter().enumerate();
            let mut data: Vec<_> = data
                .map(|(at, one)| (one.index.unwrap_or(at), one.embedding))
                .collect();
            data.sort_by_key(|(index, _)| *index);
            if data.iter().enumerate().any(|(at, (index, _))| at != *index) {
                return Err("its vectors are numbered wrongly".to_owned());
            }
            let counted = answer.usage.and_then(|usage| usage.prompt_tokens);
            Ok(Encoded {
                vectors: data.into_iter().map(|(_, embedding)| embedding).collect(),
                // A larger number is a mistake, and must not overflow the sum.
                tokens: counted.map(|tokens| tokens.min(u32::MAX.into())),
            })
        }
    }
}

/// As many as there were texts, each of this width and of length 1.
fn unit_vectors(
    mut vectors: Vec<Vec<f32>>,
    count: usize,
    width: usize,
) -> Result<Vec<Vec<f32>>, String> {
    if vectors.len() != count {
        return Err(format!("{} vectors for {count} texts", vectors.len()));
    }
    for vector in &mut vectors {
        if vector.len() != width {
            let wide = vector.len();
            return Err(format!(
                "a vector of {wide} components instead of {width}: set encoder.width, or another model answers"
            ));
        }
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !length.is_normal() {
            return Err("a vector without direction".to_owned());
        }
        vector.iter_mut().for_each(|x| *x /= length);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use EmbeddingForm::{OpenAi, Tei};

    fn vectors(form: EmbeddingForm, answer: &Value, count: usize) -> Result<Vec<Vec<f32>>, String> {
        unit_vectors(read(form, answer.to_string().as_bytes())?.vectors, count, 2)
    }

    #[test]
    fn tokens_are_those_that_the_server_counts() {
        let data = json!([{ "embedding": [1, 0] }]);
        for (form, answer, tokens) in [
            (
                OpenAi,
                json!({ "data": data, "usage": { "prompt_tokens": 7 } }),
                Some(7),
            ),
            (
                OpenAi,
                json!({ "data": data, "usage": { "prompt_tokens": u64::MAX } }),
                Some(u64::from(u32::MAX)),
            ),
            (OpenAi, json!({ "data": data, "usage": {} }), None),
            (OpenAi, json!({ "data": data }), None),
            (Tei, json!([[1, 0]]), None),
        ] {
            let encoded = read(form, answer.to_string().as_bytes()).unwrap();
            assert_eq!(encoded.tokens, tokens, "{answer}");
        }
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts_and_have_length_one() {
        let one =
            |index: usize, embedding: [f32; 2]| json!({ "index": index, "embedding": embedding });
        let (ahead, behind) = (one(0, [3.0, 4.0]), one(1, [0.0, -2.0]));
        let expected = vec![vec![0.6, 0.8], vec![0.0, -1.0]];
        for data in [json!([ahead, behind]), json!([behind, ahead])] {
            assert_eq!(
                vectors(OpenAi, &json!({ "data": data }), 2),
                Ok(expected.clone())
            );
        }
        let unnumbered = json!({ "data": [{ "embedding": [3, 4] }, { "embedding": [0, -2] }] });
        assert_eq!(vectors(OpenAi, &unnumbered, 2), Ok(expected.clone()));
        // One that leaves out some numbers.
        let some = json!({ "data": [ahead, { "embedding": [0, -2] }] });
        assert_eq!(vectors(OpenAi, &some, 2), Ok(expected.clone()));
        let tei = json!([[3.0, 4.0], [0.0, -2.0]]);
        assert_eq!(vectors(Tei, &tei, 2), Ok(expected));
    }

    #[test]
    fn what_are_no_such_vectors_is_said() {
        for (form, answer, said) in [
            (OpenAi, json!([]), "no vectors: "),
            (OpenAi, json!({ "data": [] }), "0 vectors for 1 texts"),
            (
                OpenAi,
                json!({ "data": [{ "index": 1, "embedding": [1, 0] }] }),
                "its vectors are numbered wrongly",
            ),
            (
                OpenAi,
                json!({ "data": [{ "embedding": "AACAPw==".repeat(1000) }] }),
                "no vectors: invalid type: string \"AACA",
            ),
            (Tei, json!({ "error": "overloaded" }), "no vectors: "),
            (Tei, json!([[1, 0], [1, 0]]), "2 vectors for 1 texts"),
            (
                Tei,
                json!([[1, 0, 0]]),
                "a vector of 3 components instead of 2",
            ),
            (Tei, json!([[0, 0]]), "a vector without direction"),
            (Tei, json!([[1e38, 1e38]]), "a vector without direction"),
            (Tei, json!([[null, 1]]), "no vectors: "),
        ] {
            let error = vectors(form, &answer, 1).unwrap_err();
            assert!(error.starts_with(said) && error.len() < 300, "{error}");
        }
    }

    #[test]
    fn whatever_changes_vectors_is_in_the_fingerprint_and_the_address_is_not() {
        let width = NonZeroUsize::new(384).unwrap();
        let usual = HttpEncoderOptions::new("http://h/embed", Tei, "e5", width);
        let moved = HttpEncoderOptions::new("http://i/embed", Tei, "e5", width);
        assert_eq!(usual.fingerprint(), moved.fingerprint());
        let others = [
            HttpEncoderOptions {
                model: "gte".to_owned(),
                ..usual.clone()
            },
            HttpEncoderOptions {
                form: OpenAi,
                ..usual.clone()
            },
            HttpEncoderOptions {
                width: NonZeroUsize::MIN,
                ..usual.clone()
            },
            HttpEncoderOptions {
                query_prefix: String::new(),
                ..usual.clone()
            },
            HttpEncoderOptions {
                passage_prefix: String::new(),
                ..usual.clone()
            },
        ];
        for other in others {
            assert_ne!(usual.fingerprint(), other.fingerprint());
        }
    }
}
