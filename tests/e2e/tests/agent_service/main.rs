//! `haptic agent` as it runs in a pod: the real binary behind TLS, a real HAProxy 3.4, probes, signals.

mod container;
mod life;
mod options;
mod pod;
mod question;
mod tls;
