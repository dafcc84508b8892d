//! A path with a socket of our own.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _},
            net::UnixListener as StdListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use thiserror::Error;
use tokio::net::UnixListener;

/// Clients that wait in the kernel.
const BACKLOG: i32 = 128;

/// The owner alone may connect.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// A socket that listens at a path. The file goes with this value, unless another has taken its place.
#[derive(Debug)]
pub struct Socket {
    listener: StdListener,
    place: Place,
}

/// The file, and the right to be there.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Held against another server that starts on the same path. The file stays: to remove it would be a race.
    _lock: File,
}

#[derive(Debug, Error)]
pub enum SocketError {
    #[error("{} is there and is no socket; choose another path, or remove it if nobody needs it", .0.display())]
    NotASocket(PathBuf),
    #[error("{} is served by another process; stop that one first or choose another path", .0.display())]
    InUse(PathBuf),
    #[error("{doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

// === impl Socket ===

impl Socket {
    /// Listens at `path`, for the owner alone from the first moment. A socket that nobody listens at is replaced; a live
    /// one, and whatever is no socket, is left alone. Beside it lies a lock, `PATH.lock`.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |doing| move |source: io::Error| SocketError::Io { doing, path: path.to_owned(), source };
        let lock = lock(path)?;
        let address = SocketAddrUnix::new(path).map_err(|errno| failed("naming a socket")(errno.into()))?;
        remove_stale(path, &address)?;
        let socket = unbound().map_err(failed("making the socket"))?;
        // The mode of an unbound socket is the most that its file will have.
        rustix::fs::fchmod(&socket, MODE).map_err(|errno| failed("making private the socket")(errno.into()))?;
        rustix::net::bind(&socket, &address).map_err(|errno| failed("making the socket")(errno.into()))?;
        let file = fs::symlink_metadata(path).map_err(failed("looking at"))?;
        let place = Place { path: path.to_owned(), identity: (file.dev(), file.ino()), _lock: lock };
        rustix::net::listen(&socket, BACKLOG).map_err(|errno| failed("listening at")(errno.into()))?;
        Ok(Self { listener: StdListener::from(socket), place })
    }

    /// Gives the listener to the runtime that this is called in.
    pub(super) fn listen(self) -> Result<(UnixListener, Place), SocketError> {
        let Self { listener, place } = self;
        match UnixListener::from_std(listener) {
            Ok(listener) => Ok((listener, place)),
            Err(source) => Err(SocketError::Io { doing: "listening at", path: place.path.clone(), source }),
        }
    }
}

fn unbound() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Two servers that find the same stale socket must not both replace it.
fn lock(path: &Path) -> Result<File, SocketError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&name, flags, MODE).map(File::from);
    let lock = lock.map_err(|errno| SocketError::Io { doing: "opening", path: name.clone(), source: errno.into() })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(SocketError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => Err(SocketError::Io { doing: "locking", path: name, source }),
    }
}

fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), SocketError> {
    let failed = |doing| move |source: io::Error| SocketError::Io { doing, path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("looking at")(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    let probe = unbound().map_err(failed("making a socket to try"))?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed("removing the stale")),
        // A full queue is that of a live server too, and so is a socket of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(SocketError::InUse(path.to_owned())),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("trying who listens at")(errno.into())),
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::os::unix::{fs::PermissionsExt as _, net::UnixStream};

    use super::*;

    #[test]
    fn only_the_owner_may_connect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v1.sock");
        let socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v1.sock");
        drop(StdListener::bind(&path).unwrap());
        assert!(path.exists(), "the standard library leaves the file");
        let _socket = Socket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_live_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v1.sock");
        let other = StdListener::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::InUse(_))));
        drop(other);
        let first = Socket::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::InUse(_))));
        UnixStream::connect(&path).unwrap();
        drop(first);
        Socket::bind(&path).unwrap();
    }

    #[test]
    fn what_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::NotASocket(_))));
        // A link to a stale socket is no socket either.
        let link = folder.path().join("link");
        let target = folder.path().join("target.sock");
        drop(StdListener::bind(&target).unwrap());
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(matches!(Socket::bind(&link), Err(SocketError::NotASocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        assert!(target.exists());
    }

    #[test]
    fn a_file_that_took_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v1.sock");
        let socket = Socket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "someone else's").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    }

    #[test]
    fn what_cannot_be_done_names_the_path() {
        let refused = Socket::bind(Path::new("/nowhere/at/all.sock")).unwrap_err().to_string();
        assert_eq!(refused, "opening /nowhere/at/all.sock.lock");
    }
}
