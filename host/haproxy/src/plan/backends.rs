//! Rules 3 and 4: backends and their servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{BackendRecord, FileKind, FilePath, Op, ReasonCode, ServerAddress, ServerRecord, ServerState};

use crate::plan::{Sides, is_safe_token, keywords, script::Script, sections::ChangedBackends};

/// The first version that makes and removes whole backends at run time.
const DYNAMIC_BACKENDS: (u16, u16) = (3, 4);

/// Files that servers of this diff need loaded.
#[derive(Default)]
pub(super) struct Referenced {
    pub(super) certificates: BTreeSet<FilePath>,
}

struct Walk<'a, 's> {
    sides: Sides<'a>,
    script: &'s mut Script,
    referenced: Referenced,
}

pub(super) fn compare(sides: Sides<'_>, changed: &ChangedBackends, script: &mut Script) -> Referenced {
    let mut walk = Walk { sides, script, referenced: Referenced::default() };
    for name in &changed.0 {
        match (sides.old.backends.get(name), sides.next.backends.get(name)) {
            (Some(old), Some(next)) => walk.change(old, next),
            (None, Some(next)) => walk.add(next),
            (Some(old), None) => walk.remove(old),
            (None, None) => {
                let message = format!("backend {name}: its text changed, and no record says how");
                walk.script.reload(ReasonCode::UnexplainedText, message);
            }
        }
    }
    walk.referenced
}

// === impl Walk ===

impl Walk<'_, '_> {
    fn reload(&mut self, code: ReasonCode, backend: &BackendRecord, message: impl std::fmt::Display) {
        self.script.reload(code, format!("backend {}: {message}", backend.name));
    }

    fn add(&mut self, backend: &BackendRecord) {
        let Sides { old, next, baseline } = self.sides;
        let (major, minor) = baseline.haproxy;
        if baseline.haproxy < DYNAMIC_BACKENDS {
            let message = format!("HAProxy {major}.{minor} cannot add a backend at run time (3.4 can)");
            return self.reload(ReasonCode::BackendNeedsNewerHAProxy, backend, message);
        }
        if !backend.body.is_empty() {
            let message =
                "it has settings of its own besides its profile, which a backend made at run time cannot have";
            return self.reload(ReasonCode::BackendStructural, backend, message);
        }
        if !old.profiles.contains_key(&backend.profile) {
            let message = format!("its profile {} is not loaded", backend.profile);
            return self.reload(ReasonCode::ProfileAdded, backend, message);
        }
        let pending = baseline.pending_deletes.contains(&*backend.name);
        if pending || old.profiles.contains_key(&backend.name) || next.profiles.contains_key(&backend.name) {
            let message = "its name is still taken in the running HAProxy";
            return self.reload(ReasonCode::BackendStructural, backend, message);
        }
        if !is_safe_token(&backend.name) || !is_safe_token(&backend.profile) {
            return self.reload(ReasonCode::UnsafeToken, backend, "its name cannot stand in a runtime command");
        }
        if !backend.dynamic_servers && !backend.servers.is_empty() {
            return self.reload(ReasonCode::ServerNotDynamic, backend, STATIC_ALGORITHM);
        }
        let (name, profile, mode) = (backend.name.clone(), backend.profile.clone(), backend.mode);
        let mut ops = vec![Op::BackendAdd { name: name.clone(), profile, mode }];
        for server in &backend.servers {
            match self.addition(backend, server) {
                Ok(server) => ops.extend(server),
                Err((code, message)) => return self.script.reload(code, message),
            }
        }
        self.script.backend_adds.extend(ops);
        self.script.publishes.push(Op::BackendPublish { name });
    }

    fn remove(&mut self, backend: &BackendRecord) {
        let (major, minor) = self.sides.baseline.haproxy;
        if self.sides.baseline.haproxy < DYNAMIC_BACKENDS {
            let message = format!("HAProxy {major}.{minor} cannot remove a backend at run time (3.4 can)");
            return self.reload(ReasonCode::BackendNeedsNewerHAProxy, backend, message);
        }
        if !backend.body.is_empty() {
            let message = "it has settings of its own besides its profile, so it goes with a reload";
            return self.reload(ReasonCode::BackendStructural, backend, message);
        }
        if let Some(server) = backend.servers.iter().find(|server| is_resolved(server)) {
            let message = resolved(backend, server);
            return self.script.reload(ReasonCode::ServerNotDynamic, message);
        }
        self.script.unpublishes.push(Op::BackendUnpublish { name: backend.name.clone() });
        for server in &backend.servers {
            self.script.server_deletes.push(deletion(backend, server));
        }
        self.script.backend_deletes.push(Op::BackendDel { name: backend.name.clone() });
    }

    fn change(&mut self, old: &BackendRecord, next: &BackendRecord) {
        if old == next {
            let message = "its text changed although nothing that is declared did";
            return self.reload(ReasonCode::UnexplainedText, next, message);
        }
        let reasons = self.script.reasons.len();
        self.structure(old, next);
        let (Some(before), Some(after)) = (by_name(old), by_name(next)) else {
            let message = "two of its servers have the same name";
            return self.reload(ReasonCode::BackendStructural, next, message);
        };
        let removed: Vec<_> = old.servers.iter().filter(|server| !after.contains_key(&*server.name)).collect();
        let mut added = Vec::new();
        for server in &next.servers {
            match before.get(&*server.name) {
                Some(known) => self.change_server(next, known, server),
                None => added.push(server),
            }
        }
        let structural = self.script.reasons.len() > reasons;
        let exchange = !added.is_empty() || !removed.is_empty();
        if exchange && !(old.dynamic_servers && next.dynamic_servers) {
            return self.reload(ReasonCode::ServerNotDynamic, next, STATIC_ALGORITHM);
        }
        for server in added {
            match self.addition(next, server) {
                // A server made now would have the old settings around it, so it waits for the reload.
                Ok(_) if structural => {}
                Ok(ops) => self.script.server_updates.extend(ops),
                Err((code, message)) => self.script.reload(code, message),
            }
        }
        self.remove_servers(old, &removed);
        if self.script.reasons.len() == reasons {
            let names = removed.iter().map(|server| (old.name.clone(), server.name.clone()));
            self.script.retirable.extend(names);
        }
    }

    /// What only a reload changes in a backend.
    fn structure(&mut self, old: &BackendRecord, next: &BackendRecord) {
        if old.profile != next.profile {
            let message = format!("its profile changed from {} to {}", old.profile, next.profile);
            self.reload(ReasonCode::BackendStructural, next, message);
        }
        if old.mode != next.mode {
            let message = format!("its mode changed from {} to {}", old.mode, next.mode);
            self.reload(ReasonCode::BackendStructural, next, message);
        }
        if old.body != next.body {
            self.reload(ReasonCode::BackendStructural, next, "its settings changed");
        }
    }

    fn remove_servers(&mut self, backend: &BackendRecord, removed: &[&ServerRecord]) {
        for server in removed {
            if is_resolved(server) {
                self.script.reload(ReasonCode::ServerNotDynamic, resolved(backend, server));
            } else if backend.body.contains("use-server") {
                // Such a rule pins the server for the lifetime of the worker.
                let message =
                    format!("server {} cannot be removed while use-server rules stand in the backend", server.name);
                self.reload(ReasonCode::ServerNotDynamic, backend, message);
            } else {
                self.script.server_deletes.push(deletion(backend, server));
            }
        }
    }

    /// Address, port, weight and state change at run time; everything else is a reload.
    fn change_server(&mut self, backend: &BackendRecord, old: &ServerRecord, next: &ServerRecord) {
        if old == next {
            return;
        }
        if is_resolved(old) || is_resolved(next) {
            return self.script.reload(ReasonCode::ServerNotDynamic, resolved(backend, next));
        }
        if old.keywords != next.keywords {
            let message = format!(
                "server {}/{}: {} changed, which HAProxy only reads when it loads",
                backend.name,
                next.name,
                changed_keywords(old, next)
            );
            self.script.reload(ReasonCode::ServerStructural, message);
        }
        if !is_safe_token(&backend.name) || !is_safe_token(&next.name) {
            let message = format!("server {}/{}: its name cannot stand in a runtime command", backend.name, next.name);
            return self.script.reload(ReasonCode::UnsafeToken, message);
        }
        let (name, server) = (backend.name.clone(), next.name.clone());
        if let ServerAddress::Ip(address) = next.address
            && (old.address != next.address || old.port != next.port)
        {
            if next.port == 0 {
                return self.script.reload(ReasonCode::ServerNotDynamic, without_port(backend, next));
            }
            let op = Op::ServerSetAddr { backend: name.clone(), server: server.clone(), address, port: next.port };
            self.script.server_updates.push(op);
        }
        if old.weight != next.weight {
            if backend.dynamic_servers {
                let op = Op::ServerSetWeight { backend: name.clone(), server: server.clone(), weight: next.weight };
                self.script.server_updates.push(op);
            } else {
                let message = format!("the weight of server {server} changed, and {STATIC_ALGORITHM}");
                self.reload(ReasonCode::ServerNotDynamic, backend, message);
            }
        }
        match (old.disabled, next.disabled) {
            (true, false) => {
                let health = keywords::has(&next.keywords, "check");
                self.script.server_updates.push(Op::ServerEnable { backend: name, server, health });
            }
            (false, true) => {
                let state = ServerState::Maint;
                self.script.server_updates.push(Op::ServerSetState { backend: name, server, state });
            }
            _ => {}
        }
    }

    /// The operations that make a server, or why it needs a reload.
    fn addition(&mut self, backend: &BackendRecord, server: &ServerRecord) -> Result<Vec<Op>, (ReasonCode, String)> {
        let refuse = |code, message: &str| Err((code, format!("server {}/{}: {message}", backend.name, server.name)));
        let ServerAddress::Ip(address) = server.address else {
            return Err((ReasonCode::ServerNotDynamic, resolved(backend, server)));
        };
        if server.port == 0 {
            return Err((ReasonCode::ServerNotDynamic, without_port(backend, server)));
        }
        if self.sides.baseline.pending_deletes.contains(&format!("{}/{}", backend.name, server.name)) {
            return refuse(
                ReasonCode::ServerStructural,
                "a removed server of this name still finishes its connections",
            );
        }
        if !is_safe_token(&backend.name) || !is_safe_token(&server.name) {
            return refuse(ReasonCode::UnsafeToken, "its name cannot stand in a runtime command");
        }
        for keyword in &server.keywords {
            let (major, minor) = self.sides.baseline.haproxy;
            if !keywords::is_dynamic(&keyword.name, (major, minor)) {
                let message =
                    format!("HAProxy {major}.{minor} cannot add a server with `{}` at run time", keyword.name);
                return refuse(ReasonCode::ServerNotDynamic, &message);
            }
            if keyword.value.as_deref().is_some_and(|value| !is_safe_token(value)) {
                let message = format!("the value of `{}` cannot stand in a runtime command", keyword.name);
                return refuse(ReasonCode::UnsafeToken, &message);
            }
        }
        if let Err(message) = self.require_files(server) {
            return refuse(ReasonCode::ServerNotDynamic, &message);
        }
        let (name, id) = (backend.name.clone(), server.name.clone());
        let mut ops = vec![Op::ServerAdd {
            backend: name.clone(),
            server: id.clone(),
            address,
            port: server.port,
            weight: server.weight,
            keywords: server.keywords.clone(),
        }];
        if !server.disabled {
            let health = keywords::has(&server.keywords, "check");
            ops.push(Op::ServerEnable { backend: name, server: id, health });
        }
        Ok(ops)
    }

    /// `add server` only takes files that the worker has in memory under that very name.
    fn require_files(&mut self, server: &ServerRecord) -> Result<(), String> {
        let inventory = self.sides.baseline.inventory;
        let words = &server.keywords;
        for (keyword, loaded) in [("ca-file", &inventory.ca_files), ("crl-file", &inventory.crl_files)] {
            if let Some(file) = keywords::value(words, keyword)
                && !loaded.contains(file)
            {
                return Err(format!("`{keyword} {file}` is not loaded"));
            }
        }
        if let Some(file) = keywords::value(words, "crt")
            && !inventory.certificates.contains(file)
        {
            match self.sides.next.files.get_key_value(file) {
                Some((path, record)) if record.kind == FileKind::Cert => {
                    self.referenced.certificates.insert(path.clone());
                }
                _ => return Err(format!("`crt {file}` is not loaded")),
            }
        }
        let unverified = keywords::value(words, "verify") == Some("none") || keywords::has(words, "ca-file");
        if (keywords::has(words, "ssl") || keywords::has(words, "check-ssl")) && !unverified {
            return Err("with `ssl` it needs `verify none` or a `ca-file` to be added at run time".to_owned());
        }
        if keywords::has(words, "agent-check") && !keywords::has(words, "agent-port") {
            return Err("`agent-check` needs an `agent-port`".to_owned());
        }
        Ok(())
    }
}

/// Stands after "backend NAME: ".
const STATIC_ALGORITHM: &str = "its load-balancing algorithm is static, so its servers only change with a reload";

/// `None` = a name stands twice.
fn by_name(backend: &BackendRecord) -> Option<BTreeMap<&str, &ServerRecord>> {
    let servers: BTreeMap<_, _> = backend.servers.iter().map(|server| (&*server.name, server)).collect();
    (servers.len() == backend.servers.len()).then_some(servers)
}

fn deletion(backend: &BackendRecord, server: &ServerRecord) -> Op {
    Op::ServerDel { backend: backend.name.clone(), server: server.name.clone() }
}

fn is_resolved(server: &ServerRecord) -> bool {
    matches!(server.address, ServerAddress::Host(_))
}

fn resolved(backend: &BackendRecord, server: &ServerRecord) -> String {
    let (backend, server, address) = (&backend.name, &server.name, &server.address);
    format!("server {backend}/{server}: a server whose address is a name ({address}) only changes with a reload")
}

fn without_port(backend: &BackendRecord, server: &ServerRecord) -> String {
    format!("server {}/{}: it has no port", backend.name, server.name)
}

fn changed_keywords(old: &ServerRecord, next: &ServerRecord) -> String {
    let differ = |a: &ServerRecord, b: &ServerRecord| {
        a.keywords.iter().filter(|keyword| !b.keywords.contains(keyword)).map(|k| k.name.clone()).collect::<Vec<_>>()
    };
    let mut names: Vec<Arc<str>> = differ(old, next);
    names.extend(differ(next, old));
    names.sort();
    names.dedup();
    if names.is_empty() {
        return "the order of its keywords".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
