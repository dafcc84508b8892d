//! Compiled images on disk.
//!
//! The runtime trusts an image blindly (a flipped byte is executed), so only images that this host wrote itself may
//! come back: the folder and its key are readable by this user alone, and every image carries a MAC over the module's
//! digest, the engine's compatibility and the image: BLAKE3 with that key, because proving an image was a third of
//! loading it with HMAC-SHA256. Whatever does not match in any way is compiled again and replaced. Images never come from
//! anywhere else.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use haptic_model::{Digest, Framer};
use thiserror::Error;
use wasmtime::{Engine, component::Component};

use crate::image::Proven;

const KEY_BYTES: usize = 32;
const MAC_BYTES: usize = blake3::OUT_LEN;
const KEY_FILE: &str = "key";
const IMAGE_SUFFIX: &str = ".image";

/// Images kept; beyond it the oldest go. Each is two to three times its module.
const MAX_IMAGES: usize = 64;

/// Separates these MACs from any other use of the key.
const MAC_CONTEXT: &[u8] = b"haptic compiled plugin image v2";

/// The folder of compiled images.
pub(crate) struct Cache {
    folder: PathBuf,
    key: [u8; KEY_BYTES],
    /// Engines that accept each other's images share this value.
    compatibility: u64,
}

#[derive(Debug, Error)]
pub enum CacheError {
    #[error("{doing} {path} for compiled plugins")]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{path} for compiled plugins must belong to the user that runs haptic and to nobody else; remove it, or run `chmod {mode} {path}`"
    )]
    Exposed { path: PathBuf, mode: &'static str },
    #[error("{path} is not a key of {KEY_BYTES} bytes for compiled plugins; remove it, and a new one is made")]
    Key { path: PathBuf },
}

/// Why an image was not used.
#[derive(Debug)]
enum Refusal {
    Absent,
    Io(io::Error),
    Mac,
    Runtime(wasmtime::Error),
}

// === impl Cache ===

impl Cache {
    /// Opens the folder `compiled` below `root`, made at first use with a new key.
    pub(crate) fn open(root: &Path, engine: &Engine) -> Result<Self, CacheError> {
        let folder = root.join("compiled");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|source| CacheError::Io {
            doing: "making the folder",
            path: folder.clone(),
            source,
        })?;
        own(&folder, "700")?;
        let key = key(&folder)?;
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { folder, key, compatibility: hasher.finish() })
    }

    /// The compiled image of the module with this digest, if one is there and proves to be ours.
    pub(crate) fn get(&self, engine: &Engine, module: &Digest) -> Option<Component> {
        match self.read(engine, module) {
            Ok(component) => Some(component),
            Err(Refusal::Absent) => None,
            Err(refusal) => {
                tracing::warn!(module = %module, reason = %refusal, "ignoring a compiled plugin image; compiling anew");
                None
            }
        }
    }

    /// Keeps an image. A failure costs a compilation at the next start and nothing else.
    pub(crate) fn put(&self, module: &Digest, image: &[u8]) {
        if let Err(error) = self.write(module, image).and_then(|()| self.prune()) {
            tracing::warn!(module = %module, %error, "keeping no compiled plugin image");
        }
    }

    /// Where the image of a module stands.
    pub(crate) fn image_path(&self, module: &Digest) -> PathBuf {
        let mut framer = Framer::default();
        framer.field(module.as_bytes()).field(self.compatibility.to_be_bytes());
        self.folder.join(format!("{}{IMAGE_SUFFIX}", framer.finish()))
    }

    fn read(&self, engine: &Engine, module: &Digest) -> Result<Component, Refusal> {
        let bytes = match fs::read(self.image_path(module)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Refusal::Absent),
            Err(error) => return Err(Refusal::Io(error)),
        };
        let (mac, image) = bytes.split_first_chunk::<MAC_BYTES>().ok_or(Refusal::Mac)?;
        // This comparison takes the same time wherever the two differ.
        if self.mac(module, image) != *mac {
            return Err(Refusal::Mac);
        }
        Proven::believe(image).component(engine).map_err(Refusal::Runtime)
    }

    fn write(&self, module: &Digest, image: &[u8]) -> io::Result<()> {
        let path = self.image_path(module);
        let staged = path.with_extension(format!("{}.staged", std::process::id()));
        let mut file = create_private(&staged)?;
        file.write_all(self.mac(module, image).as_bytes())?;
        file.write_all(image)?;
        fs::rename(&staged, &path)
    }

    fn prune(&self) -> io::Result<()> {
        let mut images = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(IMAGE_SUFFIX) {
                images.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        images.sort();
        for (_, path) in images.iter().rev().skip(MAX_IMAGES) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn mac(&self, module: &Digest, image: &[u8]) -> blake3::Hash {
        // All but the image have a fixed length, so no two inputs are the same bytes.
        let mut mac = blake3::Hasher::new_keyed(&self.key);
        mac.update(MAC_CONTEXT).update(module.as_bytes()).update(&self.compatibility.to_be_bytes()).update(image);
        mac.finalize()
    }
}

/// The key, made at first use. Two processes that start together agree on one, because linking a name fails if it
/// exists.
fn key(folder: &Path) -> Result<[u8; KEY_BYTES], CacheError> {
    let path = folder.join(KEY_FILE);
    let io = |doing| {
        let path = path.clone();
        move |source| CacheError::Io { doing, path, source }
    };
    if !path.try_exists().map_err(io("looking for the key"))? {
        let staged = folder.join(format!("{KEY_FILE}.{}.staged", std::process::id()));
        let mut key = [0; KEY_BYTES];
        File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key)).map_err(io("making the key"))?;
        create_private(&staged).and_then(|mut file| file.write_all(&key)).map_err(io("writing the key"))?;
        let linked = fs::hard_link(&staged, &path);
        fs::remove_file(&staged).map_err(io("writing the key"))?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io("writing the key")(error)),
            _ => {}
        }
    }
    own(&path, "600")?;
    let bytes = fs::read(&path).map_err(io("reading the key"))?;
    bytes.try_into().map_err(|_| CacheError::Key { path: path.clone() })
}

/// Makes a file that nobody else may read, in place of what is there.
fn create_private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // The process's umask may have taken bits away.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Whether only the user that runs this process can read and write `path`.
fn own(path: &Path, mode: &'static str) -> Result<(), CacheError> {
    let metadata = fs::symlink_metadata(path).map_err(|source| CacheError::Io {
        doing: "looking at",
        path: path.to_owned(),
        source,
    })?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.is_symlink() || metadata.uid() != user || metadata.mode() & 0o077 != 0 {
        return Err(CacheError::Exposed { path: path.to_owned(), mode });
    }
    Ok(())
}

// === impl Refusal ===

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("it is not there"),
            Self::Io(error) => write!(f, "it cannot be read: {error}"),
            Self::Mac => f.write_str("it was not written by this host, or was changed since"),
            Self::Runtime(error) => write!(f, "the runtime refuses it: {}", error.root_cause()),
        }
    }
}
