//! Which versions of the server this program can work with.

/// Collections have metadata since then; the label of a collection lies there.
const OLDEST: (u64, u64) = (1, 16);

/// Whether a server of this version can be worked with. If not, why, and what to do.
pub(crate) fn check(version: &str) -> Result<(), String> {
    let Some(found) = parse(version) else {
        return Err(format!(
            "it says that its version is {version:?}: is this a Qdrant server?"
        ));
    };
    let (major, minor) = OLDEST;
    if found < OLDEST {
        return Err(format!(
            "it is version {version}, and collections have metadata since {major}.{minor}: update \
             the server"
        ));
    }
    if found.0 > major {
        return Err(format!(
            "it is version {version}, and this program knows versions {major}.x: update this \
             program"
        ));
    }
    Ok(())
}

/// Major and minor version of `1.16.3` or `1.17.0-dev`.
fn parse(version: &str) -> Option<(u64, u64)> {
    let mut parts = version
        .trim()
        .trim_start_matches('v')
        .split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_old_new_and_strange_servers_apart() {
        for (version, said) in [
            ("1.16.0", None),
            ("1.16.3", None),
            ("v1.20.0-dev", None),
            ("1.160.0", None),
            ("1.15.9", Some("update the server")),
            ("0.99.0", Some("update the server")),
            ("2.0.0", Some("update this program")),
            ("", Some("is this a Qdrant server?")),
            ("nginx", Some("is this a Qdrant server?")),
            ("1", Some("is this a Qdrant server?")),
        ] {
            let found = check(version).err();
            assert_eq!(found.is_some(), said.is_some(), "{version}: {found:?}");
            assert!(found.unwrap_or_default().contains(said.unwrap_or_default()));
        }
    }
}
