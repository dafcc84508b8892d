//! The agent's certificate, key and client CA: read from files, read again when these change, and never replaced by
//! what does not fit together.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haptic_model::{Digest, Framer};
use haptic_wire::tls::{Credentials, CredentialsError, CredentialsPart, NotAfter, PeerName};
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use parking_lot::Mutex;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::engine::with_causes;

/// How often the files are looked at whatever inotify says: it has limits, and not every file system tells.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// From when on an end that comes nearer is a warning.
const SOON: Duration = Duration::from_hours(24);

/// Where the agent's side of TLS is. A mounted Secret holds all three.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// PEM, own certificate first.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The CA, or several, of the controller's certificate.
    pub client_ca: PathBuf,
}

/// What the next handshake uses. A file that is broken or half-written keeps the present one.
#[derive(Debug)]
pub struct ServerCertificates {
    files: TlsFiles,
    client_name: PeerName,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    config: Arc<ServerConfig>,
    not_after: NotAfter,
    /// Of what was read last, usable or not: the same is neither taken nor complained about twice.
    seen: Option<Digest>,
    alarm: Alarm,
}

/// What reading the files again came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// They are as they were.
    Unchanged,
    /// The next handshake uses the new ones.
    Taken,
    /// They are not usable as they are, so the present ones stay.
    Kept,
}

/// What was said about the end of the present certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Silent,
    Soon,
    Expired,
}

#[derive(Debug, Error)]
pub enum TlsFilesError {
    #[error("could not read {path}; mount the Secret with the agent's certificate, or correct the option")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not usable")]
    Content {
        path: PathBuf,
        #[source]
        source: CredentialsError,
    },
}

/// The three files as they were at one time.
struct Contents([Vec<u8>; 3]);

// === impl ServerCertificates ===

impl ServerCertificates {
    /// Reads the files. `client_name` is the controller's identity.
    pub fn load(files: TlsFiles, client_name: PeerName) -> Result<Self, TlsFilesError> {
        let contents = files.read()?;
        let (config, not_after) = files.parse(&contents, &client_name)?;
        info!(file = %files.certificate.display(), %not_after, %client_name, "serving with this certificate");
        let state = State { config, not_after, seen: Some(contents.digest()), alarm: Alarm::Silent };
        Ok(Self { files, client_name, state: Mutex::new(state) })
    }

    /// Waits until the files are there and fit together; `None` = it was told to stop before.
    pub async fn await_files(files: TlsFiles, client_name: PeerName, shutdown: &CancellationToken) -> Option<Self> {
        let (changed, mut changes) = mpsc::channel(1);
        let _watcher = files.watch(changed);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watched = true;
        let mut said = String::new();
        loop {
            match Self::load(files.clone(), client_name.clone()) {
                Ok(certificates) => return Some(certificates),
                Err(error) => {
                    let why = with_causes(&error);
                    if why != said {
                        warn!(error = %why, "waiting for the certificate; until it comes no controller is answered");
                        said = why;
                    }
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return None,
                change = changes.recv(), if watched => watched = change.is_some(),
                _ = looks.tick() => {}
            }
        }
    }

    /// When the present certificate ends.
    pub fn not_after(&self) -> NotAfter {
        self.state.lock().not_after
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.state.lock().config.clone()
    }

    /// Reads the files again whenever they change, until `shutdown`.
    pub(super) async fn follow(&self, shutdown: &CancellationToken) {
        let (changed, mut changes) = mpsc::channel(1);
        let _watcher = self.files.watch(changed);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watched = true;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                change = changes.recv(), if watched => watched = change.is_some(),
                _ = looks.tick() => {}
            }
            self.refresh();
        }
    }

    /// Reads the files now and takes what is in them, if it is new and fits together.
    pub fn refresh(&self) -> Refreshed {
        let read = self.files.read();
        let mut state = self.state.lock();
        let refreshed = match read {
            Ok(contents) => state.take(&contents, &self.files, &self.client_name),
            Err(error) => {
                // Said once: whatever comes next has another digest.
                if state.seen.take().is_some() {
                    warn!(error = %with_causes(&error), "keeping the present certificate");
                }
                Refreshed::Kept
            }
        };
        state.watch_the_end();
        refreshed
    }
}

// === impl TlsFilesError ===

impl TlsFilesError {
    /// The folder is there and the file is not, or is empty: so is a mounted Secret that is still to be filled.
    pub fn is_not_yet(&self) -> bool {
        match self {
            Self::Read { path, source } => source.kind() == io::ErrorKind::NotFound && folder(path).is_dir(),
            Self::Content { path, .. } => std::fs::metadata(path).is_ok_and(|file| file.len() == 0),
        }
    }
}

// === impl State ===

impl State {
    fn take(&mut self, contents: &Contents, files: &TlsFiles, client_name: &PeerName) -> Refreshed {
        let digest = contents.digest();
        let parsed = files.parse(contents, client_name);
        if self.seen.replace(digest) == Some(digest) {
            return if parsed.is_ok() { Refreshed::Unchanged } else { Refreshed::Kept };
        }
        match parsed {
            Ok((config, not_after)) => {
                info!(file = %files.certificate.display(), %not_after, "serving with this certificate from now on");
                self.config = config;
                self.not_after = not_after;
                self.alarm = Alarm::Silent;
                Refreshed::Taken
            }
            Err(error) => {
                warn!(error = %with_causes(&error), end = %self.not_after, "keeping the present certificate");
                Refreshed::Kept
            }
        }
    }

    fn watch_the_end(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let alarm = match self.not_after.as_secs().checked_sub(now) {
            None | Some(0) => Alarm::Expired,
            Some(left) if left < SOON.as_secs() => Alarm::Soon,
            Some(_) => Alarm::Silent,
        };
        if alarm > self.alarm {
            let not_after = self.not_after;
            match alarm {
                Alarm::Expired => error!(%not_after, "the certificate has expired and clients refuse it; renew it"),
                Alarm::Soon | Alarm::Silent => warn!(%not_after, "the certificate expires soon; renew it"),
            }
            self.alarm = alarm;
        }
    }
}

// === impl TlsFiles ===

impl TlsFiles {
    fn read(&self) -> Result<Contents, TlsFilesError> {
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|source| TlsFilesError::Read { path: path.clone(), source });
        Ok(Contents([read(&self.certificate)?, read(&self.key)?, read(&self.client_ca)?]))
    }

    fn parse(
        &self,
        contents: &Contents,
        client_name: &PeerName,
    ) -> Result<(Arc<ServerConfig>, NotAfter), TlsFilesError> {
        let Contents([certificate, key, ca]) = contents;
        let parsed = Credentials::from_pem(certificate, key, ca)
            .and_then(|credentials| Ok((credentials.server_config(client_name)?, credentials.not_after())));
        parsed.map_err(|source| {
            let path = match source.part() {
                CredentialsPart::Certificate => &self.certificate,
                CredentialsPart::Key => &self.key,
                CredentialsPart::Ca => &self.client_ca,
            };
            TlsFilesError::Content { path: path.clone(), source }
        })
    }

    /// Watches the folders, not the files: a mounted Secret changes by the swap of the link `..data` in its folder.
    /// Without a watch, looking from time to time has to do.
    fn watch(&self, changed: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
        let told = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_own_reading(event.kind)) {
                return;
            }
            // Full: a look that is to come sees this change too.
            let _ = changed.try_send(());
        };
        let folders: BTreeSet<&Path> =
            [&self.certificate, &self.key, &self.client_ca].map(|file| folder(file)).into_iter().collect();
        let watching = notify::recommended_watcher(told).and_then(|mut watcher| {
            folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => {
                debug!(?folders, "watching the certificate files");
                Some(watcher)
            }
            Err(error) => {
                warn!(%error, every = ?LOOK_EVERY, "cannot watch the certificate files; looking at them instead");
                None
            }
        }
    }
}

// === impl Contents ===

impl Contents {
    fn digest(&self) -> Digest {
        let mut framer = Framer::default();
        for content in &self.0 {
            framer.field(content);
        }
        framer.finish()
    }
}

fn is_own_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
