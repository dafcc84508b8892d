//! From what is said about several proposals together to a verdict about each.

use haptic_model::{Finding, ObjectRef};

use crate::admission::{Opinion, Proposal};

/// What is said about proposals that were judged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted { warnings: Vec<Finding> },
    Refused { caused: Vec<Finding> },
    Unjudged(Finding),
}

/// Judges all together, and splits what is refused until everyone's verdict is his own. `attempt` gets indices.
pub(super) fn decide(proposals: &[Proposal], mut attempt: impl FnMut(&[usize]) -> Outcome) -> Vec<Opinion> {
    let mut opinions: Vec<Option<Opinion>> = proposals.iter().map(|_| None).collect();
    let mut pending: Vec<Vec<usize>> = vec![(0..proposals.len()).collect()];
    while let Some(chosen) = pending.pop() {
        let [first, others @ ..] = &*chosen else { continue };
        let outcome = attempt(&chosen);
        if others.is_empty() {
            opinions[*first] = Some(outcome.into());
            continue;
        }
        match outcome {
            Outcome::Accepted { warnings } if warnings.iter().all(|warning| is_of(warning, &chosen, proposals)) => {
                for index in chosen {
                    let own = |warning: &&Finding| warning.object.as_ref() == Some(&proposals[index].object);
                    let warnings = warnings.iter().filter(own).cloned().collect();
                    opinions[index] = Some(Opinion::Allowed { warnings });
                }
            }
            // Nobody is told what another one's proposal is warned about.
            Outcome::Accepted { .. } => pending.extend(halves(&chosen)),
            Outcome::Refused { caused } => pending.extend(parts(&chosen, &caused, proposals)),
            Outcome::Unjudged(finding) => {
                for index in chosen {
                    opinions[index] = Some(Opinion::Unjudged(finding.clone()));
                }
            }
        }
    }
    opinions.into_iter().map(|opinion| opinion.expect("every set was split down to its members")).collect()
}

// === impl Opinion ===

impl From<Outcome> for Opinion {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted { warnings } => Self::Allowed { warnings },
            Outcome::Refused { caused } => Self::Denied { causes: caused },
            Outcome::Unjudged(finding) => Self::Unjudged(finding),
        }
    }
}

/// Those that the causes name each alone, the others together; halves where nobody is named.
fn parts(chosen: &[usize], caused: &[Finding], proposals: &[Proposal]) -> Vec<Vec<usize>> {
    let named = |object: &ObjectRef| caused.iter().any(|finding| finding.object.as_ref() == Some(object));
    let (suspects, others): (Vec<usize>, Vec<usize>) =
        chosen.iter().copied().partition(|index| named(&proposals[*index].object));
    if suspects.is_empty() {
        return halves(chosen);
    }
    suspects.into_iter().map(|suspect| vec![suspect]).chain([others]).collect()
}

fn halves(chosen: &[usize]) -> Vec<Vec<usize>> {
    let (left, right) = chosen.split_at(chosen.len() / 2);
    vec![right.to_vec(), left.to_vec()]
}

/// The finding is about one of the proposed objects.
fn is_of(finding: &Finding, chosen: &[usize], proposals: &[Proposal]) -> bool {
    chosen.iter().any(|index| finding.object.as_ref() == Some(&proposals[*index].object))
}
