//! The address by which clients reach the server, if it differs from the one that it sees.

use std::str::FromStr;

use http::Uri;

/// An address such as `https://qa.example.org` or `https://example.org/spechop`, without a slash at its
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// As it stands in links.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublicUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let url: Uri = text.parse().map_err(drop)?;
        let is_web = matches!(url.scheme_str(), Some("http" | "https"));
        let names_nobody = url
            .authority()
            .is_some_and(|name| !name.as_str().contains('@'));
        // The parser drops what stands behind a number sign.
        if !is_web || !names_nobody || url.query().is_some() || text.contains('#') {
            return Err(());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_an_address_of_the_web_and_no_more() {
        for (text, url) in [
            ("https://qa.example.org", Some("https://qa.example.org")),
            ("http://h:8080/a/b/", Some("http://h:8080/a/b")),
            ("qa.example.org", None),
            ("ftp://h", None),
            ("https://", None),
            ("https://u:p@h", None),
            ("https://h/?q", None),
            ("https://h/#f", None),
            ("javascript:alert(1)", None),
            ("https://a b", None),
            ("", None),
        ] {
            let read = text.parse::<PublicUrl>().ok();
            assert_eq!(read.as_ref().map(PublicUrl::as_str), url, "{text}");
        }
    }
}
