//! What holds a check.
//!
//! The standard library's `fork` copies the page tables of the whole process, and each page that is written later costs a
//! fault; so a large process has checks started by a small one (`starter`).
//!
//! Landlock and seccomp act on a thread and on what it starts, so a thread of its own restricts itself for good and
//! then starts HAProxy from there; the rest of the process stays free, and no `unsafe` code has to run between fork and
//! exec. Resource limits belong to a process, so they cannot be set that way: they are set from outside on the new
//! process, while it waits for the end of an empty first configuration file, which is its standard input, a pipe that we
//! hold open. So they stand before the first byte of the rendered set is read, without a race.

use std::{
    collections::BTreeMap,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::{
    process::{Pid, Resource, Rlimit, prlimit, setpriority_process},
    thread::{CapabilitySet, UnshareFlags},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

use crate::check::{CheckLimits, CheckMode};

/// The measures of one check. Landlock, seccomp and resource limits are the floor and need no privilege; namespaces
/// come on top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailReport {
    /// Own network, process and IPC namespaces.
    pub namespaces: Measure,
    /// Files outside of the tree, the binary, its libraries and public CA certificates cannot be opened.
    pub landlock: Measure,
    /// No sockets, no starting of programs, nothing that changes the system.
    pub seccomp: Measure,
    /// Processor time, memory, files, processes, no file writes, no core dump.
    pub rlimits: Measure,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    Enforced,
    /// Why the kernel did not allow it.
    Unavailable(String),
}

/// A check that has read nothing of its tree yet.
pub(super) struct Jailed {
    child: Child,
    pub(super) report: JailReport,
}

/// Whose child a check is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    /// The process that wants to know: reads the output through pipes, and kills the process group that the check leads.
    Watcher,
    /// A process that was started for it: the check has that one's output and process group, and cannot leave the latter.
    Starter,
}

/// Standard input as a file. Opened again this way, a pipe whose writer is gone is at its end, where a named pipe would
/// block.
const GATE: &str = "/proc/self/fd/0";

/// Starts the check of the tree, with everything that holds it.
pub(super) fn spawn(
    binary: &Path,
    tree: &Path,
    mode: CheckMode,
    limits: &CheckLimits,
    parent: Parent,
) -> io::Result<Jailed> {
    let command = command(binary, tree, mode, parent);
    let readable = readable_paths(binary, tree);
    let executable = executable_paths(binary);
    let started = thread::scope(|scope| {
        let confined = thread::Builder::new().name("check-jail".to_owned());
        let running = confined.spawn_scoped(scope, || {
            if mode == CheckMode::TolerateUnresolved {
                give_way();
            }
            confined_spawn(command, &readable, &executable, parent)
        })?;
        running.join().map_err(|_| io::Error::other("the thread that starts checks panicked"))
    })?;
    let (child, [namespaces, landlock, seccomp]) = started?;
    let rlimits = Measure::from_result(set_limits(&child, limits));
    Ok(Jailed { child, report: JailReport { namespaces, landlock, seccomp, rlimits } })
}

fn command(binary: &Path, tree: &Path, mode: CheckMode, parent: Parent) -> Command {
    let mut command = Command::new(binary);
    command.arg("-c");
    if mode == CheckMode::TolerateUnresolved {
        command.arg("-dr");
    }
    command
        .args(["-f", GATE, "-f", "./haproxy.cfg"])
        .current_dir(tree)
        .env_clear()
        .stdin(Stdio::piped())
        // To keep the user and group is no change, but it makes the standard library start the child by a plain fork,
        // which seccomp can tell from the `vfork` of `os.execute`, `io.popen` and `posix_spawn`.
        .uid(rustix::process::getuid().as_raw())
        .gid(rustix::process::getgid().as_raw());
    if parent == Parent::Watcher {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    }
    command
}

/// Runs on a thread that is used for nothing else: what it gives up is gone for good.
fn confined_spawn(
    mut command: Command,
    readable: &[PathBuf],
    executable: &[PathBuf],
    parent: Parent,
) -> io::Result<(Child, [Measure; 3])> {
    let namespaces = Measure::from_result(unshare());
    drop_capabilities();
    let landlock = match confine_files(readable, executable) {
        Ok(RulesetStatus::NotEnforced) => Measure::Unavailable("the kernel has no Landlock".to_owned()),
        Ok(_) => Measure::Enforced,
        Err(error) => Measure::Unavailable(error.to_string()),
    };
    let seccomp = Measure::from_result(confine_calls(parent));
    Ok((command.spawn()?, [namespaces, landlock, seccomp]))
}

/// On Linux a priority belongs to a thread and is inherited; to lower it needs no privilege. A kernel that refuses it takes
/// nothing from the check.
fn give_way() {
    let _ = setpriority_process(None, 19);
}

/// Only with `CAP_SYS_ADMIN`: a process with several threads cannot make a user namespace, which would give it.
fn unshare() -> io::Result<()> {
    let flags = UnshareFlags::NEWNET | UnshareFlags::NEWPID | UnshareFlags::NEWIPC;
    #[expect(deprecated, reason = "unsafe for file tables only, which these flags leave alone")]
    rustix::thread::unshare(flags).map_err(io::Error::from)
}

/// A program that root starts has no capability that is not in this set. Without privilege there is nothing to drop.
fn drop_capabilities() {
    for capability in CapabilitySet::all().iter() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
}

fn confine_files(readable: &[PathBuf], executable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V6;
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(executable, AccessFs::ReadFile | AccessFs::Execute))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// What HAProxy, its loader and its libraries read besides the tree. Nothing here is secret.
fn readable_paths(binary: &Path, tree: &Path) -> Vec<PathBuf> {
    const SYSTEM: [&str; 13] = [
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/etc/ld.so.cache",
        "/dev/urandom",
        "/dev/random",
        // The topology decides the default number of threads.
        "/sys/devices/system",
        // Public CA certificates, for `@system-ca` and the default of `verify`.
        "/etc/ssl/openssl.cnf",
        "/etc/ssl/certs",
        "/usr/share/ca-certificates",
        "/etc/pki",
    ];
    let mut paths: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    paths.push(tree.to_owned());
    // A binary that brings its libraries has them beside itself.
    if let Some(directory) = real(binary).parent() {
        paths.push(directory.join("lib"));
    }
    paths
}

/// The binary and the loader that its header names: the kernel opens both to execute them.
fn executable_paths(binary: &Path) -> Vec<PathBuf> {
    let binary = real(binary);
    let loader = crate::check::loader::of(&binary);
    let mut paths = vec![binary];
    paths.extend(loader.map(|loader| real(&loader)));
    paths
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn set_limits(child: &Child, limits: &CheckLimits) -> io::Result<()> {
    let pid = Some(Pid::from_child(child));
    let cpu = limits.cpu.as_secs().max(1);
    for (resource, most) in [
        (Resource::Cpu, cpu),
        (Resource::As, limits.memory_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
        // Not enforced by the kernel for uid 0; there the process namespace bounds a fork bomb.
        (Resource::Nproc, 0),
    ] {
        let bound = Rlimit { current: Some(most), maximum: Some(most) };
        prlimit(pid, resource, bound).map_err(io::Error::from)?;
    }
    Ok(())
}

fn confine_calls(parent: Parent) -> io::Result<()> {
    let refused = filter(refused_calls(parent), libc::EPERM)?;
    // The C library then falls back to `clone`, whose flags a filter can read.
    let unknown = filter(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    for program in [&unknown, &refused] {
        seccompiler::apply_filter(program).map_err(io::Error::other)?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let arch = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let action = SeccompAction::Errno(errno.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// A list of what is refused, not of what is allowed: the latter differs between C libraries and would turn a new
/// library version into refused configurations. `haproxy -c` itself needs none of these.
fn refused_calls(parent: Parent) -> Rules {
    const CALLS: &[i64] = &[
        // Network, unix sockets included: a socket can be made (HAProxy probes for features), but leads nowhere.
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendmmsg,
        // Ways to run code that was not a file of the system.
        libc::SYS_execveat,
        libc::SYS_memfd_create,
        libc::SYS_memfd_secret,
        // Other processes.
        libc::SYS_ptrace,
        libc::SYS_kill,
        libc::SYS_pidfd_send_signal,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_setsid,
        // The system.
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_open_by_handle_at,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_personality,
        libc::SYS_fanotify_init,
    ];
    let mut rules: Rules = CALLS.iter().map(|&call| (call, Vec::new())).collect();
    if parent == Parent::Starter {
        rules.insert(libc::SYS_setpgid, Vec::new());
    }
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_vfork, Vec::new());
    let vfork = u64::from(libc::CLONE_VFORK.cast_unsigned());
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(vfork), vfork)
        .expect("argument 0 exists");
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![condition]).expect("there is a condition")]);
    // A datagram may name its receiver; without one it is refused by the kernel.
    let condition = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0).expect("argument 4 exists");
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![condition]).expect("there is a condition")]);
    // The same calls by the numbers of the x32 interface.
    #[cfg(target_arch = "x86_64")]
    rules.extend(rules.clone().into_iter().map(|(call, rule)| (call | 0x4000_0000, rule)).collect::<Vec<_>>());
    rules
}

// === impl Jailed ===

impl Jailed {
    /// Lets it read the tree.
    pub(super) fn release(mut self) -> Child {
        drop(self.child.stdin.take());
        self.child
    }
}

// === impl Measure ===

impl Measure {
    pub fn is_enforced(&self) -> bool {
        *self == Self::Enforced
    }

    fn from_result(result: io::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Enforced,
            Err(error) => Self::Unavailable(error.to_string()),
        }
    }
}
