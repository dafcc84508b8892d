//! What a request asks of a plugin.

use std::collections::BTreeMap;

use haptic_model::{
    CONFIG_PATH, File, FileKind, FilePath, FileSet,
    ports::{Contract, Now},
};
use haptic_plugins::Question;

use crate::v1::{Refusal, Request, RequestFile, RequestFileKind};

/// The files of a request, as a contract wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    AuxiliaryFile {
        file: File,
        /// Sorted by path.
        data_files: Vec<File>,
    },
    /// `haproxy.cfg` and all others.
    RenderedOutput { files: FileSet },
}

// === impl Request ===

impl Request {
    /// Sorts the files into what is checked and what goes with it.
    ///
    /// An auxiliary-file validator checks the one file that is not data. A rendered-output validator checks
    /// `haproxy.cfg`, and every other file goes with it whether it is called data or not. `haproxy.cfg` that is called
    /// data is data, so that there is nothing to check.
    ///
    /// # Panics
    ///
    /// If `contract` is that of template filters, which no request of this protocol can ask for.
    pub fn subject(self, contract: Contract) -> Result<Subject, Refusal> {
        let mut to_check: Option<FilePath> = None;
        let mut files = BTreeMap::new();
        for (index, RequestFile { path, content, kind }) in self.files.into_iter().enumerate() {
            let path = FilePath::new(&path).map_err(|source| Refusal::Path { index, source })?;
            if files.contains_key(&path) {
                return Err(Refusal::Twice { index, path: path.to_string() });
            }
            let is_config = path.as_str() == CONFIG_PATH;
            let is_data = kind == Some(RequestFileKind::Data);
            match contract {
                Contract::RenderedOutput if is_config && !is_data => to_check = Some(path.clone()),
                Contract::RenderedOutput => {}
                Contract::AuxiliaryFile if is_data => {}
                Contract::AuxiliaryFile => {
                    if let Some(first) = &to_check {
                        let (first, second) = (first.to_string(), path.to_string());
                        return Err(Refusal::SeveralToCheck { first, second });
                    }
                    to_check = Some(path.clone());
                }
                Contract::TemplateFilter => panic!("no request of this protocol asks for template filters"),
            }
            let kind = if is_config { FileKind::Config } else { FileKind::General };
            files.insert(path.clone(), File::new(path, kind, content));
        }
        match (contract, to_check) {
            (Contract::RenderedOutput, Some(_)) => Ok(Subject::RenderedOutput { files }),
            (Contract::RenderedOutput, None) => Err(Refusal::NoConfig),
            (_, Some(path)) => {
                let file = files.remove(&path).expect("it was inserted above");
                Ok(Subject::AuxiliaryFile { file, data_files: files.into_values().collect() })
            }
            (_, None) => Err(Refusal::NothingToCheck),
        }
    }
}

// === impl Subject ===

impl Subject {
    /// The question to put to a plugin. The protocol has no clock: `now` is the server's.
    pub fn question(&self, now: Now) -> Question<'_> {
        match self {
            Self::AuxiliaryFile { file, data_files } => {
                Question::AuxiliaryFile { file, data_files: data_files.iter().collect(), now }
            }
            Self::RenderedOutput { files } => Question::RenderedOutput { files, now },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn request(files: &[(&str, bool)]) -> Request {
        let file = |&(path, is_data): &(&str, bool)| RequestFile {
            path: path.to_owned(),
            content: path.to_uppercase(),
            kind: is_data.then_some(RequestFileKind::Data),
        };
        Request { protocol_version: 1, files: files.iter().map(file).collect(), staged_root: None }
    }

    #[test]
    fn an_auxiliary_file_is_the_one_that_is_not_data() {
        let subject = request(&[("z", true), ("m", false), ("a", true)]).subject(Contract::AuxiliaryFile).unwrap();
        let Subject::AuxiliaryFile { file, data_files } = subject else { panic!("{subject:?}") };
        assert_eq!((file.path.as_str(), &file.content[..]), ("m", &b"M"[..]));
        assert_eq!(data_files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a", "z"]);
    }

    #[test]
    fn rendered_output_is_the_configuration_and_all_others() {
        let files = [("maps/b.map", false), ("haproxy.cfg", false), ("a", true)];
        let subject = request(&files).subject(Contract::RenderedOutput).unwrap();
        let Subject::RenderedOutput { files } = &subject else { panic!("{subject:?}") };
        assert_eq!(files.keys().map(FilePath::as_str).collect::<Vec<_>>(), ["a", "haproxy.cfg", "maps/b.map"]);
        assert_eq!(subject.question(Now(0)).path(), "haproxy.cfg");
    }

    #[test]
    fn what_cannot_be_sorted_is_refused_with_the_next_step() {
        for (contract, files, says) in [
            (Contract::AuxiliaryFile, &[("a", true)][..], "every file of the request is data"),
            (Contract::AuxiliaryFile, &[("a", false), ("b", false)], "more than one file to check, `a` and `b`"),
            (Contract::AuxiliaryFile, &[("a", false), ("a", true)], "files[1]: `a` is in the request twice"),
            (Contract::AuxiliaryFile, &[("a", false), ("../b", true)], "files[1]: `../b` is not a file path"),
            (Contract::RenderedOutput, &[("a", false)], "no `haproxy.cfg` to check"),
            (Contract::RenderedOutput, &[("haproxy.cfg", true)], "no `haproxy.cfg` to check"),
        ] {
            let refused = request(files).subject(contract).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
