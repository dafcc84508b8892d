//! `haptic plugin serve` as its clients see it: a real process, real plugins, a socket.

mod answers;
mod framing;
mod life;
mod patience;
mod served;
mod transcript;
