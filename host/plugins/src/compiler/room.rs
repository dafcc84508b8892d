//! How much memory the control group of this process has left.
//!
//! Where a group is over its limit, the kernel may end all of its processes at once, and in a pod it does. So what
//! compiles must meet a limit of its own before that.

use std::{fs, path::Path};

/// Three quarters of what is left, so that this process has room to take the image; `None` without a limit.
pub(super) fn left() -> Option<u64> {
    // Of version 2 alone; the line is `0::/PATH`.
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(group);
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    of(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
}

fn of(most: &str, current: &str, stat: &str) -> Option<u64> {
    // It is `max` where there is no limit.
    let most: u64 = most.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    // Pages of files, which the kernel takes back when it needs them.
    let reclaimable: u64 = ["active_file", "inactive_file"].into_iter().filter_map(|name| field(stat, name)).sum();
    Some(most.saturating_sub(current.saturating_sub(reclaimable)) / 4 * 3)
}

fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "anon 300\nfile 500\ninactive_file 150\nactive_file 50\n";

    #[test]
    fn what_the_kernel_can_take_back_is_left() {
        assert_eq!(of("1000\n", "600\n", STAT), Some(450));
    }

    #[test]
    fn a_group_without_a_limit_has_no_bound() {
        assert_eq!(of("max\n", "600\n", STAT), None);
    }

    #[test]
    fn a_group_that_is_full_has_nothing_left() {
        assert_eq!(of("300\n", "600\n", STAT), Some(0));
    }
}
