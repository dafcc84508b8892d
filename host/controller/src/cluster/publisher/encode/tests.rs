#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_kubernetes::Jitter;
use proptest::prelude::*;

use super::*;
use crate::core::Reporting;

fn settings(threshold: usize, limit: usize) -> PublisherSettings {
    let defaults = PublisherSettings::new(&Reporting::default(), Jitter::new(|| 0.5));
    PublisherSettings { compression_threshold: threshold, object_limit: limit, ..defaults }
}

fn decoded(encoded: &Encoded) -> String {
    let joined = encoded.parts.concat();
    if !encoded.compressed {
        return joined;
    }
    let bytes = zstd::decode_all(BASE64_STANDARD.decode(joined).unwrap().as_slice()).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Text that does not compress.
fn noise(bytes: usize) -> String {
    let mut state = 7_u64;
    let next = std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(33 + u8::try_from((state >> 33) % 90).unwrap())
    });
    next.take(bytes).collect()
}

#[test]
fn small_text_stays_readable_and_large_text_is_compressed() {
    let text = "frontend http\n".repeat(10);
    let small = encode(text.clone(), &settings(140, 1 << 20)).unwrap();
    assert_eq!(small, Encoded { compressed: false, parts: vec![text.clone()] });
    let large = encode(text.clone(), &settings(139, 1 << 20)).unwrap();
    assert!(large.compressed && large.parts.len() == 1 && large.parts[0].len() < text.len());
    assert_eq!(decoded(&large), text);
}

#[test]
fn what_no_object_can_hold_is_compressed_whatever_the_threshold_says() {
    // Every line end takes two bytes in JSON.
    let text = "\n".repeat(600);
    assert!(encode(text, &settings(usize::MAX, 1_000)).unwrap().compressed);
}

#[test]
fn what_is_too_large_compressed_is_split_and_what_is_too_large_for_that_is_left_out() {
    let text = noise(3_000);
    let split = encode(text.clone(), &settings(1_000, 1_000)).unwrap();
    assert!(split.parts.len() > 1 && split.parts.iter().all(|part| part.len() <= 1_000));
    assert_eq!(decoded(&split), text);
    assert_eq!(encode(noise(20_000), &settings(1_000, 1_000)), None);
}

proptest! {
    #[test]
    fn every_text_comes_back(text in "(?s).{0,400}", threshold in 0_usize..500, limit in 40_usize..500) {
        if let Some(encoded) = encode(text.clone(), &settings(threshold, limit)) {
            prop_assert!(encoded.parts.iter().all(|part| encoded.compressed || json_len(part) <= limit));
            prop_assert_eq!(decoded(&encoded), text);
        }
    }

    #[test]
    fn the_length_in_json_is_known(text in "(?s).{0,200}") {
        prop_assert_eq!(json_len(&text) + 2, serde_json::to_string(&text).unwrap().len());
    }
}
