//! The addresses of servers that an operator names.

use url::Url;

/// The address of a server that is asked over HTTP.
///
/// # Errors
///
/// What is wrong with it. Nothing of it is quoted: there may be a secret in it.
pub fn base_url(written: &str) -> Result<Url, String> {
    let url = Url::parse(written).map_err(|error| error.to_string())?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "only http:// and https:// are spoken"
    } else if !url.username().is_empty() || url.password().is_some() {
        "it holds a user name or password; a key has its own setting"
    } else if url.query().is_some() || url.fragment().is_some() {
        "it holds a query or a fragment"
    } else {
        return Ok(url);
    };
    Err(problem.to_owned())
}

/// What a server is called in messages: the port is named unless it is the usual one of HTTP.
pub fn named(what: &str, url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{what} at {host}:{port}"),
        None => format!("{what} at {host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_by_its_address() {
        for (written, name) in [
            ("http://h:8080/v1", "it at h:8080"),
            ("https://h:443/v1/", "it at h"),
            ("http://[::1]:1", "it at [::1]:1"),
        ] {
            assert_eq!(named("it", &base_url(written).unwrap()), name);
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_it() {
        for (written, problem) in [
            ("", "relative URL without a base"),
            ("secret:80", "only http"),
            ("ftp://secret/", "only http"),
            ("http://", "empty host"),
            ("http://u:secret@h/", "it holds a user name"),
            ("http://h/?q=secret", "it holds a query"),
            ("http://h/#secret", "it holds a query or a fragment"),
        ] {
            let said = base_url(written).unwrap_err();
            assert!(said.starts_with(problem), "{written}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
