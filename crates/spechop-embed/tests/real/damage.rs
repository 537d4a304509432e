//! Breaking model folders.

use std::fs;
use std::path::Path;

use spechop_embed::OpenError;
use spechop_types::with_causes;

pub(crate) type Damage = fn(&Path);

/// Opens a folder with each damage in turn; each must be refused in one line that names its parts.
pub(crate) fn check_refusals(
    cases: &[(&str, Damage, &[&str])],
    open: impl Fn(Damage) -> Result<(), OpenError>,
) {
    for (case, damage, expected) in cases {
        let error = open(*damage).err();
        let error = error.unwrap_or_else(|| panic!("{case}: it must not open"));
        let message = with_causes(&error);
        for part in *expected {
            assert!(message.contains(part), "{case}: {message}");
        }
        assert!(!message.contains('\n'), "{case}: {message}");
    }
    assert!(open(|_| {}).is_ok(), "what is not damaged opens");
}

pub(crate) fn edit(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).expect("a text");
    assert!(text.contains(from));
    fs::write(path, text.replace(from, to)).expect("written");
}

pub(crate) fn replace(dir: &Path, file: &str, content: impl AsRef<[u8]>) {
    fs::remove_file(dir.join(file)).expect("removed");
    fs::write(dir.join(file), content).expect("written");
}

pub(crate) fn remove(dir: &Path, file: &str) {
    fs::remove_file(dir.join(file)).expect("removed");
}
