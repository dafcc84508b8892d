//! Answers as a person reads them in a terminal.

use std::fmt;

use crate::explain::{
    Author, LineAnswer, LineMatch, RouteAnswer, TemplateLine,
    route::{By, RouteEntry},
};

impl fmt::Display for LineAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.matches.is_empty() {
            return writeln!(f, "no line has `{}`; certificates and general files are not searched", self.query);
        }
        for (index, found) in self.matches.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{found}")?;
        }
        let more = self.total - self.matches.len();
        if more > 0 {
            writeln!(f, "\nand {more} more lines; look for a longer text")?;
        }
        Ok(())
    }
}

impl fmt::Display for LineMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}  {}", self.file, self.line, self.text)?;
        if let Some(section) = &self.section {
            writeln!(f, "  in        {section}")?;
        }
        write!(f, "{}", self.author)
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, &self.object_at) {
            (Some(object), Some(at)) => writeln!(f, "  object    {object} ({at})")?,
            (Some(object), None) => writeln!(f, "  object    {object}")?,
            (None, _) => writeln!(f, "  object    none: it is about no single object")?,
        }
        for (index, template) in self.templates.iter().enumerate() {
            writeln!(f, "  {:<9} {template}", if index == 0 { "template" } else { "  or" })?;
        }
        if self.templates.is_empty() {
            writeln!(f, "  template  unknown: no template line is like it")?;
        }
        Ok(())
    }
}

impl fmt::Display for TemplateLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.template)?;
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        match &self.at {
            Some(at) => write!(f, " ({at})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RouteAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.is_empty() { "any host" } else { &self.host };
        writeln!(f, "{host}{} {}", self.path, self.summary)?;
        if let Some(entry) = &self.entry {
            write!(f, "{entry}")?;
            let by = self.tried.last().map_or("", |lookup| lookup.by.words());
            writeln!(f, "  by        {by}")?;
        }
        let Some(backend) = &self.backend else { return Ok(()) };
        for (index, server) in backend.servers.iter().enumerate() {
            let state = if server.disabled { ", disabled" } else { "" };
            let label = if index == 0 { "servers" } else { "" };
            writeln!(f, "  {label:<9} {} {} weight {}{state}", server.name, server.address, server.weight)?;
        }
        let more = backend.total - backend.servers.len();
        if more > 0 { writeln!(f, "            and {more} more") } else { Ok(()) }
    }
}

impl fmt::Display for RouteEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  entry     {}:{}  {} {}", self.map, self.line, self.key, self.value)?;
        write!(f, "{}", self.author)
    }
}

// === impl By ===

impl By {
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "the exact path",
            Self::PrefixItself => "the prefix itself",
            Self::Prefix => "the longest prefix",
            Self::Host => "the default of the host",
        }
    }
}
