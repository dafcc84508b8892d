//! What messages quote of a value.

/// The first characters of `text`, sixty at most; `…` stands for the rest, if there is one.
pub fn cut(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_sixty_characters_are_quoted() {
        assert_eq!(cut(""), "");
        assert_eq!(cut(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(cut(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
    }
}
