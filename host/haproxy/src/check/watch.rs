//! Waits for a child without ever waiting longer than allowed.

use std::{
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use crate::check::Cancellation;

pub(super) struct Watched {
    pub(super) ending: Ending,
    pub(super) output: Vec<u8>,
}

pub(super) enum Ending {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

/// Kills and reaps the child's whole group, on every way out.
struct Group(Child);

/// Reads standard output and error of `child`, a leader of its process group, until it ends.
pub(super) fn until_end(
    child: Child,
    deadline: Instant,
    output_bytes: usize,
    cancellation: &Cancellation,
) -> io::Result<Watched> {
    let mut group = Group(child);
    let mut stderr = group.0.stderr.take().expect("standard error is piped");
    let mut stdout = group.0.stdout.take().expect("standard output is piped");
    rustix::io::ioctl_fionbio(&stderr, true)?;
    rustix::io::ioctl_fionbio(&stdout, true)?;
    let exit = pidfd_open(group.pid(), PidfdFlags::empty())?;
    let mut output = Vec::new();
    let ending = loop {
        if cancellation.is_cancelled() {
            break Ending::Cancelled;
        }
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { break Ending::TimedOut };
        let mut watched = vec![exit.as_fd(), stderr.as_fd(), stdout.as_fd()];
        watched.extend(cancellation.event());
        wait(&watched, left)?;
        let more = drain(&mut stderr, &mut output, output_bytes)? | drain(&mut stdout, &mut output, output_bytes)?;
        if let Some(status) = group.0.try_wait()? {
            drain(&mut stderr, &mut output, output_bytes)?;
            drain(&mut stdout, &mut output, output_bytes)?;
            break Ending::Exited(status);
        }
        if !more {
            // Both pipes are closed: a poll of them would return at once for ever.
            wait_for_exit(exit.as_fd(), cancellation, deadline)?;
        }
    };
    Ok(Watched { ending, output })
}

fn wait_for_exit(exit: BorrowedFd<'_>, cancellation: &Cancellation, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut watched = vec![exit];
    watched.extend(cancellation.event());
    wait(&watched, left)
}

fn wait(watched: &[BorrowedFd<'_>], left: Duration) -> io::Result<()> {
    let mut fds: Vec<_> = watched.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut fds, Some(&left)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads what is there; keeps no more than `most` bytes in all. Whether more may come.
fn drain(pipe: &mut impl Read, output: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut chunk = [0; 8192];
    // Bounded, so that a child that never stops writing cannot hold the clock.
    for _ in 0..64 {
        match pipe.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => output.extend_from_slice(&chunk[..count.min(most.saturating_sub(output.len()))]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

// === impl Group ===

impl Group {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // After the leader was reaped its group lives on only while it has members, and then its number is not reused.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.0.wait();
    }
}
