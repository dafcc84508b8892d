use std::{
    net::{Ipv4Addr, TcpListener},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};

/// 256 loopback addresses that no other test uses at the same time, so that tests run in parallel on fixed ports.
pub struct Network {
    prefix: [u8; 3],
    /// Bound for as long as the network is in use: another test that tries the same prefix moves on.
    _claim: TcpListener,
}

/// Far from the ports that the kernel hands out and from those of the shop.
const CLAIM_PORT: u16 = 7007;

// === impl Network ===

impl Network {
    pub fn claim() -> Result<Self> {
        // 127.64.0 to 127.191.255; where to begin follows from the process, so that two runs rarely meet.
        // A network that was given back may still have sockets that are about to close: each claim begins further on.
        static CLAIMS: AtomicU32 = AtomicU32::new(0);
        let claims = CLAIMS.fetch_add(1, Ordering::Relaxed);
        let begin = process::id().wrapping_mul(37).wrapping_add(claims) % 0x8000;
        for step in 0..0x8000 {
            let number = (begin + step) % 0x8000;
            let [_, _, high, low] = number.to_be_bytes();
            let prefix = [127, 64 + high, low];
            let claim = Ipv4Addr::new(prefix[0], prefix[1], prefix[2], 254);
            if let Ok(listener) = TcpListener::bind((claim, CLAIM_PORT)) {
                return Ok(Self { prefix, _claim: listener });
            }
        }
        None.context("no loopback network is free: other tests hold all of 127.64.0.0 to 127.191.255.0")
    }

    pub fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.prefix;
        Ipv4Addr::new(a, b, c, last)
    }

    /// The first three numbers with a dot behind, e.g. `127.64.9.`.
    pub fn prefix(&self) -> String {
        let [a, b, c] = self.prefix;
        format!("{a}.{b}.{c}.")
    }
}
