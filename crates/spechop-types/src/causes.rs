//! An error and what caused it.

/// The error, and what caused it: the innermost cause is the last.
pub fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The innermost cause, which often says the most. An error without a cause is its own.
pub fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// The error and its causes, joined by colons. A cause is left out if its words were said already.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    for cause in causes(error).skip(1) {
        let more = cause.to_string();
        if !said.contains(&more) {
            said.push_str(": ");
            said.push_str(&more);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Link {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            let cause = self.1.as_deref()?;
            Some(cause)
        }
    }

    #[test]
    fn every_cause_is_told_once() {
        let refused = Link("connection refused", None);
        let client = Link("client: connection refused", Some(Box::new(refused)));
        let failed = Link("the request failed", Some(Box::new(client)));
        assert_eq!(
            with_causes(&failed),
            "the request failed: client: connection refused"
        );
        assert_eq!(causes(&failed).count(), 3);
        assert_eq!(innermost(&failed).to_string(), "connection refused");
        assert_eq!(innermost(&Link("alone", None)).to_string(), "alone");
    }
}
