//! What the parts of each scope say about each other.

use std::collections::{HashMap, HashSet};

use haptic_plugin_sdk::File;
use parts::Findings;

use crate::{
    Rules, expression,
    model::{Agent, Event, Message, Name, Names, Scope},
    parse::meant,
};

/// Reports what is named and not declared, declared and not used, and what keeps a message from being sent.
pub(crate) fn check(file: &File, scopes: &[Scope], rules: &Rules, report: &mut Findings) {
    let (nameless, named): (Vec<&Scope>, Vec<&Scope>) = scopes.iter().partition(|scope| scope.name.is_none());
    let first = nameless.iter().find_map(|scope| scope.first());
    if let (Some(first), [engine, ..]) = (first, named.as_slice()) {
        let engine = engine.name.as_ref().map_or("", |name| &name.text);
        report.error(
            first.place.in_file(file),
            format!(
                "this stands before the first engine, so that a filter with `engine {engine}` skips it; move it below a \
                 line `[name]`"
            ),
        );
    }
    if first.is_none() && named.is_empty() {
        report.error(file.whole(), "the file declares no agent; write `[engine]`, `spoe-agent` and its messages");
        return;
    }
    for scope in scopes.iter().filter(|scope| scope.name.is_some() || scope.first().is_some()) {
        Check { file, scope, rules, report }.run();
    }
}

struct Check<'a> {
    file: &'a File,
    scope: &'a Scope,
    rules: &'a Rules,
    report: &'a mut Findings,
}

impl<'a> Check<'a> {
    fn run(mut self) {
        let scope = self.scope;
        let Some(agent) = &scope.agent else {
            let place = scope.name.as_ref().or(scope.first());
            let position = place.map_or(self.file.whole(), |name| name.place.in_file(self.file));
            self.report.error(position, "no `spoe-agent` is declared here, and an engine needs one; declare it");
            return;
        };
        self.agent(agent);
        let messages: HashMap<&str, &'a Message> = scope.messages.iter().map(|m| (m.name.text.as_str(), m)).collect();
        for name in agent.messages.iter() {
            match messages.get(name.text.as_str()) {
                Some(message) => self.sent_at_event(message),
                None => self.undeclared(name, "spoe-message", &scope.message_names),
            }
        }
        for name in agent.groups.iter().filter(|name| !scope.group_names.contains(&name.text)) {
            self.undeclared(name, "spoe-group", &scope.group_names);
        }
        let grouped = self.groups(agent, &messages);
        for message in &scope.messages {
            self.message(message, &agent.messages, &grouped);
        }
    }

    fn agent(&mut self, agent: &Agent) {
        let name = &agent.name;
        if agent.backend.is_none() {
            self.error(name, "the agent has no backend; add `use-backend NAME` with a backend of haproxy.cfg");
        }
        let wanted: &[&str] = match self.rules.multiplexed {
            Some(false) => &["hello", "idle", "processing"],
            _ => &["processing"],
        };
        for timeout in wanted.iter().filter(|timeout| !agent.timeouts.contains(timeout)) {
            let message = "HAProxy waits for this agent without end; add";
            self.warn(name, format!("{message} `timeout {timeout} 500ms` or what suits it"));
        }
        if agent.messages.is_empty() && agent.groups.is_empty() {
            self.warn(name, "the agent is never sent anything; add `messages NAME` or `groups NAME`");
        }
        let bad = name.text.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'));
        if let (Some(bad), None) = (bad, &agent.prefix) {
            let message = format!("`{bad}` may not begin the name of a variable; add `option var-prefix NAME`");
            self.error(name, message);
        }
    }

    /// Looks at every group and returns the messages that one of them sends.
    fn groups(&mut self, agent: &Agent, messages: &HashMap<&str, &'a Message>) -> HashSet<&'a str> {
        let mut owners: HashMap<&str, &str> = HashMap::new();
        let scope = self.scope;
        for group in &scope.groups {
            let group_name = group.name.text.as_str();
            let used = agent.groups.contains(group_name);
            if !used {
                self.warn(
                    &group.name,
                    format!(
                        "the agent does not list this group; add `groups {group_name}` to `spoe-agent`, or remove it"
                    ),
                );
            }
            if group.messages.is_empty() {
                self.warn(&group.name, "the group has no messages; add `messages NAME`, or remove the group");
            }
            for name in group.messages.iter() {
                let Some(message) = messages.get(name.text.as_str()) else {
                    self.undeclared(name, "spoe-message", &scope.message_names);
                    continue;
                };
                match owners.insert(message.name.text.as_str(), group_name) {
                    Some(owner) if used => {
                        let advice = "a message may be in one group only, so declare a second message";
                        self.error(name, format!("`{}` is in the group `{owner}`; {advice}", name.text));
                    }
                    _ => {}
                }
            }
        }
        owners.into_keys().collect()
    }

    /// What keeps a message that the agent lists from being sent at its event.
    fn sent_at_event(&mut self, message: &Message) {
        let Some((event, _)) = message.event else {
            let advice = "add e.g. `event on-frontend-http-request`, or take it from the agent's `messages`";
            self.error(&message.name, format!("the message has no event and is never sent; {advice}"));
            return;
        };
        for fetch in &message.fetches {
            if let Err(reads) = expression::available(&fetch.text, event) {
                let (fetch_name, event) = (&fetch.text, event.name());
                let advice = "use another event or another fetch";
                self.error(fetch, format!("`{fetch_name}` reads {reads} at `{event}`; {advice}"));
            }
        }
    }

    fn message(&mut self, message: &Message, listed: &Names, grouped: &HashSet<&str>) {
        let name = message.name.text.as_str();
        match (listed.contains(name), grouped.contains(name), message.event) {
            (false, false, _) => self.warn(
                &message.name,
                format!("nothing sends this message; add `messages {name}` to `spoe-agent` or to a group, or remove it"),
            ),
            (false, true, Some((event, place))) => self.report.warn(
                place.in_file(self.file),
                format!(
                    "the message is only in a group, which ignores its event `{}`; list it in the agent's `messages` as \
                     well, or remove the event",
                    Event::name(event)
                ),
            ),
            _ => {}
        }
        for acl in message.acls.iter().filter(|acl| !message.used_acls.contains(&acl.text)) {
            self.warn(acl, format!("no condition uses the ACL `{}`; use it in `event … if`, or remove it", acl.text));
        }
    }

    fn undeclared(&mut self, name: &Name, section: &str, known: &Names) {
        let meant = meant(self.report, &name.text, known.texts());
        let engine = self.scope.name.as_ref().map_or(String::new(), |name| format!(" of engine `{}`", name.text));
        let text = &name.text;
        self.error(name, format!("no `{section} {text}`{engine} is declared; declare it, or remove the name{meant}"));
    }

    fn error(&mut self, name: &Name, message: impl Into<String>) {
        self.report.error(name.place.in_file(self.file), message);
    }

    fn warn(&mut self, name: &Name, message: impl Into<String>) {
        self.report.warn(name.place.in_file(self.file), message);
    }
}

// === impl Scope ===

impl Scope {
    /// The name of the first section.
    fn first(&self) -> Option<&Name> {
        let agent = self.agent.iter().map(|agent| &agent.name);
        let groups = self.groups.iter().map(|group| &group.name);
        let messages = self.messages.iter().map(|message| &message.name);
        agent.chain(groups).chain(messages).min_by_key(|name| name.place.line())
    }
}
