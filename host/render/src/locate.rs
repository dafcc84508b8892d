//! Finds the template line that wrote a rendered line, for messages about text that HAProxy or a validator refused.

use std::sync::Arc;

use crate::compile::Compiled;

/// The template line whose literal text covers most of `text`. `None` when no line covers at least half of it.
pub(crate) fn locate(compiled: &Compiled, text: &str) -> Option<(Arc<str>, u32)> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut best: Option<(usize, Arc<str>, u32)> = None;
    for template in compiled.names.templates() {
        for (index, line) in template.source.lines().enumerate() {
            let covered = coverage(line.trim(), text);
            if covered * 2 >= text.len() && best.as_ref().is_none_or(|(most, ..)| covered > *most) {
                best = Some((covered, template.name.clone(), u32::try_from(index + 1).unwrap_or(0)));
            }
        }
    }
    best.map(|(_, name, line)| (name, line))
}

/// The lines of the template that the engine calls `name` whose literal text covers most of `text`, and at least half.
pub(crate) fn lines_like(compiled: &Compiled, name: &str, text: &str) -> Vec<u32> {
    let text = text.trim();
    let mut best = (0, Vec::new());
    for (line, source) in lines_of(compiled, name) {
        let covered = coverage(source.trim(), text);
        if covered == 0 || covered * 2 < text.len() || covered < best.0 {
            continue;
        }
        if covered > best.0 {
            best = (covered, Vec::new());
        }
        best.1.push(line);
    }
    best.1
}

/// The lines of the template that the engine calls `name` that hold `needle`.
pub(crate) fn lines_with(compiled: &Compiled, name: &str, needle: &str) -> Vec<u32> {
    lines_of(compiled, name).filter(|(_, source)| source.contains(needle)).map(|(line, _)| line).collect()
}

fn lines_of<'a>(compiled: &'a Compiled, name: &str) -> impl Iterator<Item = (u32, &'a str)> {
    (1..).zip(compiled.names.template(name).into_iter().flat_map(|template| template.source.lines()))
}

/// How many bytes of `text` the literal parts of a template line account for, in order; 0 when one is missing.
fn coverage(line: &str, text: &str) -> usize {
    let mut covered = 0;
    let mut rest = text;
    for (index, literal) in literals(line).enumerate() {
        if literal.is_empty() {
            continue;
        }
        let Some(position) = rest.find(literal) else { return 0 };
        if index == 0 && position != 0 {
            return 0;
        }
        covered += literal.len();
        rest = &rest[position + literal.len()..];
    }
    covered
}

fn literals(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let current = rest?;
        let open = ["{{", "{%", "{#"].iter().filter_map(|open| current.find(open)).min();
        let Some(open) = open else {
            rest = None;
            return Some(current);
        };
        let close = ["}}", "%}", "#}"].iter().filter_map(|close| current[open..].find(close)).min();
        rest = close.map(|close| &current[open + close + 2..]);
        Some(&current[..open])
    })
}
