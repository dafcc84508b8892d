//! Running operations: batches of simple commands, and dialogues for what needs a payload or an answer in between.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use haptic_model::{CrtListEntry, FilePath, Op};

use crate::{
    runtime::{
        Answer, BATCH_BYTES, Deletion, DeletionState, Executed, RuntimeClient, RuntimeError, check_token,
        command::{Command, Phase, map_add, map_del, phase, simple},
    },
    version::{DYNAMIC_BACKENDS, MinorVersion},
};

/// Most duplicates of one key that are removed one by one.
const MAX_DUPLICATES: usize = 64;

/// The TLS stores that are changed by `set` and `commit` in one process-wide transaction each.
#[derive(Clone, Copy, Debug)]
enum Store {
    Cert,
    Ca,
    Crl,
}

struct Run<'a> {
    client: &'a RuntimeClient,
    version: MinorVersion,
    base_dir: &'a Path,
    batch: Vec<Command>,
    batch_bytes: usize,
    phase: Option<Phase>,
    /// Keys that an earlier operation of this run touched.
    touched: HashSet<(FilePath, String)>,
    /// Deleted keys that may have had duplicates (haproxy-facts §0 trap 7).
    deleted: Vec<Command>,
    done: Executed,
}

pub(crate) async fn run(
    client: &RuntimeClient,
    version: MinorVersion,
    ops: &[Op],
    base_dir: &Path,
) -> Result<Executed, RuntimeError> {
    let mut run = Run {
        client,
        version,
        base_dir,
        batch: Vec::new(),
        batch_bytes: 0,
        phase: None,
        touched: HashSet::new(),
        deleted: Vec::new(),
        done: Executed::default(),
    };
    for op in ops {
        run.op(op).await?;
        run.done.ops += 1;
    }
    run.flush().await?;
    Ok(run.done)
}

pub(crate) async fn try_delete(
    client: &RuntimeClient,
    deletions: &[Deletion],
) -> Result<Vec<DeletionState>, RuntimeError> {
    let mut states = Vec::with_capacity(deletions.len());
    // Names are short: a hundred fit one line.
    for chunk in deletions.chunks(50) {
        let mut commands = Vec::with_capacity(chunk.len());
        for deletion in chunk {
            commands.push(match deletion {
                Deletion::Server { backend, server } => {
                    format!("del server {}/{}", check_token(backend)?, check_token(server)?)
                }
                Deletion::Backend { name } => format!("del backend {}", check_token(name)?),
            });
        }
        let answers = client.ask(&commands, None).await?;
        for ((deletion, command), answer) in chunk.iter().zip(&commands).zip(&answers) {
            states.push(deletion_state(deletion, answer).ok_or_else(|| answer.refused(command))?);
        }
    }
    Ok(states)
}

/// `None` = an answer that this client does not know.
fn deletion_state(deletion: &Deletion, answer: &Answer) -> Option<DeletionState> {
    let last = answer.text.lines().next_back().unwrap_or_default();
    let gone = match deletion {
        Deletion::Server { .. } => ["Server deleted.", "No such server.", "No such backend."],
        Deletion::Backend { .. } => ["Backend deleted.", "No such backend.", "No such backend."],
    };
    let waiting = [
        "Server still has connections",
        "Only servers in maintenance mode",
        "Backend must be unpublished",
        "Only a backend without server",
    ];
    if gone.contains(&last) {
        return Some(DeletionState::Gone);
    }
    if waiting.iter().any(|text| last.starts_with(text)) || answer.text.contains("still has") {
        return Some(DeletionState::Waiting);
    }
    if answer.failed() {
        return Some(DeletionState::Stuck);
    }
    // A notice that was cut off before its last line: the next try says whether it is gone.
    (matches!(deletion, Deletion::Backend { .. })).then_some(DeletionState::Waiting)
}

// === impl Run ===

impl Run<'_> {
    async fn op(&mut self, op: &Op) -> Result<(), RuntimeError> {
        let phase = phase(op);
        if self.phase.is_some_and(|before| before != phase) {
            self.flush().await?;
        }
        self.phase = Some(phase);
        if let Some(commands) = simple(op)? {
            for command in commands {
                self.push(command).await?;
            }
        }
        match op {
            Op::ServerDel { backend, server } => {
                let (backend, server) = (backend.to_string(), server.to_string());
                self.done.deferred.push(Deletion::Server { backend, server });
            }
            Op::BackendDel { name } => {
                self.done.deferred.push(Deletion::Backend { name: check_token(name)?.to_owned() });
            }
            Op::MapAdd { map, key, value } => {
                // A duplicate key would win over the new one, so the first addition of a key starts from nothing.
                if self.touched.insert((map.clone(), key.to_string())) {
                    self.push(map_del(map, key)?).await?;
                }
                self.push(map_add(map, key, value)?).await?;
            }
            Op::MapSet { map, key, .. } => {
                self.touched.insert((map.clone(), key.to_string()));
            }
            Op::MapDel { map, key } => {
                self.touched.insert((map.clone(), key.to_string()));
                let command = map_del(map, key)?;
                if self.version >= DYNAMIC_BACKENDS {
                    self.deleted.push(command.clone());
                }
                self.push(command).await?;
            }
            Op::MapReplace { map } => self.replace_map(map).await?,
            Op::CertNew { certificate } => {
                self.new_certificate(certificate).await?;
                self.set_store(Store::Cert, certificate).await?;
            }
            Op::CertSet { certificate } => self.set_store(Store::Cert, certificate).await?,
            Op::CaSet { file } => self.set_store(Store::Ca, file).await?,
            Op::CrlSet { file } => self.set_store(Store::Crl, file).await?,
            Op::CrtListAdd { list, entry } => self.add_crt_list_entry(list, entry).await?,
            Op::CrtListDel { list, certificate } => self.del_crt_list_entries(list, certificate).await?,
            _ => {}
        }
        Ok(())
    }

    async fn push(&mut self, command: Command) -> Result<(), RuntimeError> {
        let bytes = command.line.len() + 1;
        if bytes > BATCH_BYTES {
            let shown = command.line.chars().take(80).collect();
            return Err(RuntimeError::TooLong { command: shown, bytes });
        }
        if self.batch_bytes + bytes > BATCH_BYTES {
            self.flush().await?;
        }
        self.batch_bytes += bytes;
        self.batch.push(command);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), RuntimeError> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if !batch.is_empty() {
            let lines: Vec<String> = batch.iter().map(|command| command.line.clone()).collect();
            let answers = self.client.ask(&lines, None).await?;
            for (command, answer) in batch.iter().zip(&answers) {
                command.check(answer)?;
            }
        }
        for command in std::mem::take(&mut self.deleted) {
            self.delete_duplicates(&command).await?;
        }
        Ok(())
    }

    /// From 3.4 on, `del map` deletes one of several equal keys.
    async fn delete_duplicates(&self, command: &Command) -> Result<(), RuntimeError> {
        for _ in 0..MAX_DUPLICATES {
            let answer = self.client.ask_one(&command.line).await?;
            command.check(&answer)?;
            if !answer.is_silent() {
                return Ok(());
            }
        }
        let answer = Answer { severity: None, text: format!("more than {MAX_DUPLICATES} entries of one key") };
        Err(answer.refused(&command.line))
    }

    /// One command on a line of its own, with or without a payload.
    async fn alone(&mut self, command: &Command, payload: Option<&str>) -> Result<(), RuntimeError> {
        self.flush().await?;
        let answers = self.client.ask(std::slice::from_ref(&command.line), payload).await?;
        answers.iter().try_for_each(|answer| command.check(answer))
    }

    async fn replace_map(&mut self, map: &FilePath) -> Result<(), RuntimeError> {
        self.flush().await?;
        let content = self.read(map)?;
        let prepare = format!("prepare map {map}");
        let answer = self.client.ask_one(&prepare).await?;
        let version: u64 = answer
            .text
            .strip_prefix("New version created: ")
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| answer.refused(&prepare))?;
        let add = Command::silent(format!("add map @{version} {map}"));
        for chunk in map_chunks(&content, &add.line)? {
            self.alone(&add, Some(&chunk)).await?;
        }
        self.alone(&Command::silent(format!("commit map @{version} {map}")), None).await
    }

    async fn new_certificate(&mut self, certificate: &FilePath) -> Result<(), RuntimeError> {
        self.flush().await?;
        let line = format!("new ssl cert {certificate}");
        let answer = self.client.ask_one(&line).await?;
        let fine = answer.text.starts_with("New empty certificate store") || answer.text.ends_with("already exists!");
        if fine { Ok(()) } else { Err(answer.refused(&line)) }
    }

    /// `set` and `commit`. A stale transaction would block every other one of its kind, so it is aborted on any failure.
    async fn set_store(&mut self, store: Store, file: &FilePath) -> Result<(), RuntimeError> {
        self.flush().await?;
        let content = self.read(file)?;
        let word = store.word();
        let set = Command::says(format!("set ssl {word} {file}"), store.transaction());
        let commit = Command::says(format!("commit ssl {word} {file}"), "Success!");
        let result = match self.alone(&set, Some(&content)).await {
            Ok(()) => self.alone(&commit, None).await,
            failed => failed,
        };
        if result.is_err() {
            // Its own answer does not matter: without a transaction it says so, and the first error is what is told.
            let _ = self.client.ask_one(&format!("abort ssl {word} {file}")).await;
        }
        result
    }

    async fn add_crt_list_entry(&mut self, list: &FilePath, entry: &CrtListEntry) -> Result<(), RuntimeError> {
        let command = format!("add ssl crt-list {list}");
        if entry.options.is_empty() && entry.sni.is_empty() {
            let command = Command::says(format!("{command} {}", entry.certificate), "Success!");
            return self.alone(&command, None).await;
        }
        let mut line = entry.certificate.to_string();
        if !entry.options.is_empty() {
            for word in entry.options.split(' ').filter(|word| !word.is_empty()) {
                check_token(word)?;
            }
            line.push_str(" [");
            line.push_str(&entry.options);
            line.push(']');
        }
        for sni in &entry.sni {
            line.push(' ');
            line.push_str(check_token(sni)?);
        }
        self.alone(&Command::says(command, "Success!"), Some(&line)).await
    }

    async fn del_crt_list_entries(&mut self, list: &FilePath, certificate: &FilePath) -> Result<(), RuntimeError> {
        self.flush().await?;
        let line = format!("del ssl crt-list {list} {certificate}");
        let answer = self.client.ask_one(&line).await?;
        let lines = several_lines(&answer.text);
        if lines.is_empty() {
            return Command::says(line.clone(), "Entry '").check(&answer);
        }
        for number in lines {
            let command = Command::says(format!("{line}:{number}"), "Entry '");
            self.alone(&command, None).await?;
        }
        Ok(())
    }

    fn read(&self, file: &FilePath) -> Result<String, RuntimeError> {
        let path: PathBuf = self.base_dir.join(file.as_str());
        std::fs::read_to_string(&path).map_err(|source| RuntimeError::File { path, source })
    }
}

// === impl Store ===

impl Store {
    fn word(self) -> &'static str {
        match self {
            Self::Cert => "cert",
            Self::Ca => "ca-file",
            Self::Crl => "crl-file",
        }
    }

    /// `Transaction created for …` and `Transaction updated for …`, in the case HAProxy has for each kind.
    fn transaction(self) -> &'static str {
        match self {
            Self::Cert => "Transaction ",
            Self::Ca | Self::Crl => "transaction ",
        }
    }
}

/// The entries of a map file in payloads that fit a line. The file's reader skips empty lines and comments and trims;
/// the command line does not, so that is done here.
fn map_chunks(content: &str, command: &str) -> Result<Vec<String>, RuntimeError> {
    let room = BATCH_BYTES - command.len() - 64;
    let mut chunks = Vec::new();
    let mut chunk = String::new();
    for line in content.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.len() + 1 > room {
            return Err(RuntimeError::TooLong { command: command.to_owned(), bytes: line.len() });
        }
        if chunk.len() + line.len() + 1 > room {
            chunks.push(std::mem::take(&mut chunk));
        }
        chunk.push_str(line);
        chunk.push('\n');
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// The numbers of `… please specify a line number preceded by colons (3, 4)!`.
fn several_lines(text: &str) -> Vec<u32> {
    let Some((_, rest)) = text.split_once("line number preceded by colons (") else { return Vec::new() };
    let Some((numbers, _)) = rest.split_once(')') else { return Vec::new() };
    numbers.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn skips_comments_and_keeps_every_chunk_on_a_line() {
        let entry = format!("key{} value\n", "x".repeat(100));
        let content = format!("# title\n\n  a  b c \n{}", entry.repeat(500));
        let chunks = map_chunks(&content, "add map @1 m").unwrap();
        assert!(chunks.len() > 3);
        assert!(chunks.iter().all(|chunk| chunk.len() <= BATCH_BYTES));
        assert!(chunks[0].starts_with("a  b c\nkey"));
        assert_eq!(chunks.iter().map(|chunk| chunk.lines().count()).sum::<usize>(), 501);
    }

    #[test]
    fn reads_the_lines_of_a_certificate_with_several_entries() {
        assert_eq!(several_lines("… please specify a line number preceded by colons (3, 4, 5)!"), [3, 4, 5]);
        assert!(several_lines("Entry 'x' deleted in crtlist 'y'!").is_empty());
    }

    #[test]
    fn knows_when_a_deletion_waits_and_when_it_never_will() {
        let server = Deletion::Server { backend: "b".to_owned(), server: "s".to_owned() };
        let state = |text: &str| deletion_state(&server, &Answer { severity: Some(3), text: text.to_owned() });
        let held = "Server still has connections attached to it, cannot remove it.";
        assert_eq!(state(held), Some(DeletionState::Waiting));
        assert_eq!(state("No such server."), Some(DeletionState::Gone));
        let used = "This server cannot be removed at runtime due to other configuration elements pointing to it.";
        assert_eq!(state(used), Some(DeletionState::Stuck));
    }
}
