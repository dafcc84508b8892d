//! Guests whose text is in `tests/guests/wat`: one file a guest, which shows its one fault and nothing else.

use std::{fs, path::Path};

/// What a guest may have a function of its own for.
const FUNCTIONS: [&str; 5] = ["configure", "validate", "declarations", "call", "post"];

/// The component of the guest `name`: its modules in the frame that makes a plugin of them.
pub(crate) fn component(name: &str) -> Vec<u8> {
    let guest = text(name);
    let mut whole = text("frame");
    let own = if guest.contains("$guest-libc") { "$guest-libc" } else { "$honest-libc" };
    whole = whole.replace("  @guest@", &guest).replace("instantiate @libc@", &format!("instantiate {own}"));
    for function in FUNCTIONS {
        let instance = if guest.contains(&format!("(export \"{function}\")")) { "$the-guest" } else { "$the-honest" };
        whole = whole.replace(&format!("@{function}@ "), &format!("{instance} "));
    }
    parse(&whole)
}

/// The component whose whole text is `text`.
pub(crate) fn parse(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The text of a file of `tests/guests/wat`.
pub(crate) fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/guests/wat/{name}.wat"));
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
