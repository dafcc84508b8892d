//! What became of a list of units: which stayed in their order, which came and which went.

use std::collections::HashSet;

/// One place in the old list, the new list or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `(old index, new index)` of one key.
    Kept(usize, usize),
    /// The old index of a key that is not in the new list.
    Gone(usize),
    /// The new index of a key that was not in the old list.
    New(usize),
}

// === impl Step ===

impl Step {
    /// The old and the new index.
    pub(crate) fn places(self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Kept(old, new) => (Some(old), Some(new)),
            Self::Gone(old) => (Some(old), None),
            Self::New(new) => (None, Some(new)),
        }
    }
}

/// The steps from one list to another, in the order of both; each key at most once in each list. `None` = what stayed is
/// in another order. `is` tells at a glance that two are one, where it can.
pub(crate) fn align<'a, T>(
    old: &'a [T],
    new: &'a [T],
    is: impl Fn(&T, &T) -> bool,
    key: impl Fn(&'a T) -> &'a str,
) -> Option<Vec<Step>> {
    let same = |(old, new): &(&'a T, &'a T)| is(old, new) || key(old) == key(new);
    let front = old.iter().zip(new).take_while(same).count();
    let back = old[front..].iter().rev().zip(new[front..].iter().rev()).take_while(same).count();
    let (old_middle, new_middle) = (&old[front..old.len() - back], &new[front..new.len() - back]);
    let earlier: HashSet<&str> = old_middle.iter().map(&key).collect();
    let later: HashSet<&str> = new_middle.iter().map(&key).collect();

    let mut steps = Vec::with_capacity(old.len().max(new.len()) + 1);
    steps.extend((0..front).map(|index| Step::Kept(index, index)));
    let (mut gone, mut came) = (front, front);
    while gone < front + old_middle.len() || came < front + new_middle.len() {
        match (old_middle.get(gone - front).map(&key), new_middle.get(came - front).map(&key)) {
            (Some(before), Some(now)) if before == now => {
                steps.push(Step::Kept(gone, came));
                (gone, came) = (gone + 1, came + 1);
            }
            (Some(before), _) if !later.contains(before) => {
                steps.push(Step::Gone(gone));
                gone += 1;
            }
            (_, Some(now)) if !earlier.contains(now) => {
                steps.push(Step::New(came));
                came += 1;
            }
            _ => return None,
        }
    }
    steps.extend((0..back).map(|index| Step::Kept(gone + index, came + index)));
    Some(steps)
}

#[cfg(test)]
mod tests {
    use Step::{Gone, Kept, New};

    use super::*;

    fn steps(old: &[&'static str], new: &[&'static str]) -> Option<Vec<Step>> {
        align(old, new, |_, _| false, |text| *text)
    }

    #[test]
    fn tells_what_came_and_went() {
        assert_eq!(steps(&["a", "c"], &["a", "b", "c"]), Some(vec![Kept(0, 0), New(1), Kept(1, 2)]));
        assert_eq!(steps(&["a", "b", "c"], &["a", "c"]), Some(vec![Kept(0, 0), Gone(1), Kept(2, 1)]));
        assert_eq!(steps(&["a", "b", "d"], &["b", "c", "d"]), Some(vec![Gone(0), Kept(1, 0), New(1), Kept(2, 2)]));
        assert_eq!(steps(&[], &["a"]), Some(vec![New(0)]));
        assert_eq!(steps(&["a"], &[]), Some(vec![Gone(0)]));
    }

    #[test]
    fn does_not_follow_another_order() {
        assert_eq!(steps(&["a", "b"], &["b", "a"]), None);
        assert_eq!(steps(&["a", "b", "c"], &["c", "x", "b"]), None);
    }
}
