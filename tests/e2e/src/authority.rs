//! A CA, certificates of every wrong kind, and the folder in which a kubelet puts them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// A certificate authority of its own.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// What a certificate says of its owner.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: &'static str,
    pub usages: Vec<ExtendedKeyUsagePurpose>,
    pub validity: Validity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Valid,
    Expired,
    NotYet,
}

/// A certificate and its key, in PEM. Every one issued has another key.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

/// A folder like that of a mounted Secret: its files are links into `..data`, and that is a link to one revision.
pub struct SecretVolume {
    folder: PathBuf,
    revision: u32,
}

// === impl Authority ===

impl Authority {
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// The CA's own certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn issue(&self, subject: &Subject) -> Result<Issued, rcgen::Error> {
        let mut params = CertificateParams::new(vec![subject.name.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, subject.name);
        params.extended_key_usages.clone_from(&subject.usages);
        match subject.validity {
            Validity::Valid => {}
            Validity::Expired => params.not_after = date_time_ymd(2020, 2, 29),
            Validity::NotYet => params.not_before = date_time_ymd(3000, 1, 1),
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }
}

// === impl Subject ===

impl Subject {
    pub fn agent() -> Self {
        Self { name: "haptic-agent", usages: vec![ExtendedKeyUsagePurpose::ServerAuth], validity: Validity::Valid }
    }

    pub fn controller() -> Self {
        Self { name: "haptic-controller", usages: vec![ExtendedKeyUsagePurpose::ClientAuth], validity: Validity::Valid }
    }

    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    #[must_use]
    pub fn usable_for(self, usages: &[ExtendedKeyUsagePurpose]) -> Self {
        Self { usages: usages.to_vec(), ..self }
    }

    #[must_use]
    pub fn valid(self, validity: Validity) -> Self {
        Self { validity, ..self }
    }
}

// === impl SecretVolume ===

impl SecretVolume {
    /// Makes the folder with its first revision.
    pub fn mount(folder: &Path, pair: &Issued, ca: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut volume = Self { folder: folder.to_owned(), revision: 0 };
        volume.update(pair, ca)?;
        for name in ["tls.crt", "tls.key", "ca.crt"] {
            std::os::unix::fs::symlink(Path::new("..data").join(name), folder.join(name))?;
        }
        Ok(volume)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// All three files at once, as a kubelet does it: a new folder, a new link, a rename.
    pub fn update(&mut self, pair: &Issued, ca: &str) -> io::Result<()> {
        let before = self.revision_folder();
        self.revision += 1;
        let revision = self.revision_folder();
        fs::create_dir(&revision)?;
        fs::write(revision.join("tls.crt"), &pair.certificate)?;
        fs::write(revision.join("tls.key"), &pair.key)?;
        fs::write(revision.join("ca.crt"), ca)?;
        let link = self.folder.join("..data_tmp");
        std::os::unix::fs::symlink(revision.file_name().unwrap_or_default(), &link)?;
        fs::rename(&link, self.folder.join("..data"))?;
        match fs::remove_dir_all(before) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn revision_folder(&self) -> PathBuf {
        self.folder.join(format!("..revision_{}", self.revision))
    }
}
