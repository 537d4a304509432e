//! What is told to others about questions, and how answers are checked afterwards.

use http::{HeaderName, HeaderValue, Uri};
use secrecy::SecretString;

use super::keys::Keys;
use crate::Env;

const ENDPOINT: &str = "otlp.endpoint";
const HEADERS: &str = "otlp.headers";

/// Where the spans of questions go. Its `Debug` shows no header.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// A receiver of OTLP over gRPC: `http://host:port` or `https://host:port`.
    pub endpoint: String,
    /// The share of the questions whose spans are kept, from 0 to 1. A caller that brings a trace decides
    /// for itself.
    pub sample: f64,
    /// Of those, the most that begin in the same second.
    pub per_second: u32,
    /// Sent with every request to the receiver; values may be secret.
    pub headers: Vec<(String, SecretString)>,
}

/// How answers are checked against those that need no speculation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Audit {
    /// The share of the answered questions that is answered again at k = 1; from 0 to 1.
    pub share: f64,
    /// Most audits in an hour.
    pub per_hour: u32,
}

pub(super) fn otlp(keys: &mut Keys<'_>) -> Option<Otlp> {
    let endpoint = keys.text(ENDPOINT);
    let sample = keys.number("otlp.sample");
    let per_second = keys.small("otlp.per_second");
    let headers = headers(keys);
    let Some(endpoint) = endpoint else {
        if sample.is_some() || !headers.is_empty() {
            let problem =
                "without it no span is sent anywhere, and the other keys of otlp say nothing";
            keys.mistake(ENDPOINT, problem);
        }
        return None;
    };
    let is_address = endpoint.parse::<Uri>().is_ok_and(|uri| {
        let scheme = uri.scheme_str();
        matches!(scheme, Some("http" | "https")) && uri.host().is_some()
    });
    if !is_address {
        let problem =
            "expected http://host:port or https://host:port of a receiver of OTLP over gRPC";
        keys.mistake(ENDPOINT, problem);
    }
    Some(Otlp {
        endpoint,
        sample: sample.unwrap_or(1.0),
        per_second,
        headers,
    })
}

/// `name=value`, separated by commas. No message quotes a value.
fn headers(keys: &mut Keys<'_>) -> Vec<(String, SecretString)> {
    let mut headers = Vec::new();
    let text = keys.text(HEADERS).unwrap_or_default();
    let parts = text.split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        let named = part.split_once('=');
        let header = named.and_then(|(name, value)| {
            let name = name.trim().to_ascii_lowercase();
            HeaderName::from_bytes(name.as_bytes()).ok()?;
            HeaderValue::from_str(value.trim()).ok()?;
            // Of such a name gRPC takes bytes in base64 only.
            let is_binary = name.ends_with("-bin");
            (!is_binary).then(|| (name, SecretString::from(value.trim())))
        });
        match header {
            Some(header) => headers.push(header),
            None => keys.mistake(HEADERS, "expected name=value, with commas between them"),
        }
    }
    headers
}

/// Those that clients of HTTP heed.
pub(super) fn is_proxied(env: &Env) -> bool {
    let names = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"];
    let mut names = names
        .iter()
        .flat_map(|name| [(*name).to_owned(), name.to_lowercase()]);
    names.any(|name| env.get(&name).is_some_and(|value| !value.is_empty()))
}

pub(super) fn audit(keys: &mut Keys<'_>) -> Audit {
    let share = keys.number("audit.share").unwrap_or(0.0);
    Audit {
        share,
        per_hour: keys.small("audit.per_hour"),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn read(text: &str) -> Result<(Option<Otlp>, Audit), Vec<String>> {
        Keys::meaning(text, &[], |keys, _| (otlp(keys), audit(keys)))
    }

    #[test]
    fn nothing_is_sent_or_asked_again_unless_somebody_says_so() {
        let (otlp, audit) = read("").unwrap();
        assert!(otlp.is_none());
        assert_eq!((audit.share, audit.per_hour), (0.0, 60));
    }

    #[test]
    fn headers_are_read_and_not_shown() {
        let text =
            "[otlp]\nendpoint = \"http://127.0.0.1:4317\"\nheaders = \"X-Key=s3cret=, b = c\"";
        let otlp = read(text).unwrap().0.unwrap();
        let headers = otlp.headers.iter();
        let headers: Vec<_> = headers
            .map(|(name, value)| (name.as_str(), value.expose_secret()))
            .collect();
        assert_eq!(headers, [("x-key", "s3cret="), ("b", "c")]);
        assert!(!format!("{otlp:?}").contains("s3cret"));
        assert!((otlp.sample - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn what_cannot_be_is_a_mistake() {
        let at = "[otlp]\nendpoint = \"http://h:4317\"\n";
        for (text, words) in [
            (
                "[otlp]\nendpoint = \"h:4317\"".to_owned(),
                "expected http://",
            ),
            (
                "[otlp]\nendpoint = \"ftp://h\"".to_owned(),
                "expected http://",
            ),
            ("[otlp]\nsample = 0.5".to_owned(), "no span is sent"),
            ("[otlp]\nheaders = \"a=b\"".to_owned(), "no span is sent"),
            (format!("{at}sample = 1.5"), "a number from 0 to 1"),
            (format!("{at}headers = \"s3cret\""), "expected name=value"),
            (
                format!("{at}headers = \"a b=s3cret\""),
                "expected name=value",
            ),
            (
                format!("{at}headers = \"a=s3cret\\u0007\""),
                "expected name=value",
            ),
            (
                format!("{at}headers = \"a-bin=s3cret\""),
                "expected name=value",
            ),
            ("[audit]\nshare = 2".to_owned(), "a number from 0 to 1"),
            ("[audit]\nper_hour = 0".to_owned(), "a whole number from 1"),
        ] {
            let mistakes = read(&text).unwrap_err();
            assert!(
                mistakes.len() == 1 && mistakes[0].contains(words),
                "{text}: {mistakes:?}"
            );
            assert!(!mistakes[0].contains("s3cret"), "{mistakes:?}");
        }
    }
}
