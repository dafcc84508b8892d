//! What a Prometheus reads: the text format, as OpenMetrics and as HAProxy writes it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// One answer of `/metrics`, or several that are looked at together.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    /// By the name that a query has, without the `_bucket`, `_sum` and `_count` of histograms.
    pub families: BTreeMap<String, Metric>,
}

/// All series of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    pub kind: String,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The whole name, e.g. with `_bucket`.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// For one answer.
const BOUND: Duration = Duration::from_secs(10);
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

// === impl Scrape ===

impl Scrape {
    /// Asks `/metrics`.
    pub async fn of(address: SocketAddr) -> Result<Self> {
        Self::parse(&Self::text(address).await?)
    }

    /// What `/metrics` answers.
    pub async fn text(address: SocketAddr) -> Result<String> {
        let fetched = timeout(BOUND, fetch(address)).await.with_context(|| format!("no metrics within {BOUND:?}"))?;
        let text = fetched.with_context(|| format!("ask {address} for metrics"))?;
        let (head, body) = text.split_once("\r\n\r\n").context("an answer has a head")?;
        ensure!(head.contains(" 200 "), "{head}");
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        if chunked { whole(body) } else { Ok(body.to_owned()) }
    }

    pub fn parse(text: &str) -> Result<Self> {
        // Only there counters are declared without the end of their names.
        let open_metrics = text.ends_with("# EOF\n");
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        let mut families: BTreeMap<String, Metric> = BTreeMap::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').with_context(|| format!("`{line}` names no type"))?;
                kinds.insert(name, kind);
                let name = if kind == "counter" && open_metrics && !name.ends_with("_total") {
                    format!("{name}_total")
                } else {
                    name.to_owned()
                };
                kind.clone_into(&mut families.entry(name).or_default().kind);
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let sample = Sample::parse(line)?;
            let base = PARTS
                .iter()
                .filter_map(|part| sample.name.strip_suffix(part))
                .find(|base| kinds.get(base) == Some(&"histogram"))
                .unwrap_or(&sample.name)
                .to_owned();
            let Some(metric) = families.get_mut(&base) else { bail!("`{line}` is of no type") };
            metric.samples.push(sample);
        }
        Ok(Self { families })
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        for (name, metric) in other.families {
            let mine = self.families.entry(name).or_default();
            mine.kind = metric.kind;
            mine.samples.extend(metric.samples);
        }
    }

    /// Every series of a name, whole or in parts.
    pub fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.families.values().flat_map(|metric| &metric.samples).filter(move |sample| sample.name == name)
    }

    /// The sum of the series that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.samples(name).filter(|sample| sample.has(labels)).map(|sample| sample.value).sum()
    }
}

// === impl Sample ===

impl Sample {
    fn parse(line: &str) -> Result<Self> {
        let broken = || format!("`{line}` is no sample");
        let (name, rest) = match line.split_once('{') {
            Some((name, rest)) => (name, Some(rest)),
            None => (line.split_once(' ').with_context(broken)?.0, None),
        };
        let mut labels = BTreeMap::new();
        let value = match rest {
            None => &line[name.len()..],
            Some(mut rest) => loop {
                if let Some(end) = rest.strip_prefix('}') {
                    break end;
                }
                let (label, quoted) = rest.trim_start_matches(',').split_once("=\"").with_context(broken)?;
                let end = end_of_quoted(quoted).with_context(broken)?;
                labels.insert(label.to_owned(), quoted[..end].to_owned());
                rest = &quoted[end + 1..];
            },
        };
        let value = value.split_whitespace().next().with_context(broken)?;
        let value = value.parse().with_context(broken)?;
        Ok(Self { name: name.to_owned(), labels, value })
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|own| own == value))
    }
}

/// One answer to the end of its connection. HAProxy writes it in chunks, which the client of the traffic does not take.
async fn fetch(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: metrics\r\nConnection: close\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// The chunks as one text.
fn whole(mut body: &str) -> Result<String> {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").context("a chunk has a size")?;
        let size = usize::from_str_radix(size.trim(), 16).context("a size is a number")?;
        if size == 0 {
            return Ok(text);
        }
        text.push_str(rest.get(..size).context("a chunk is whole")?);
        body = rest.get(size + 2..).context("a chunk has an end")?;
    }
}

/// Where the quote that is not escaped stands.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end
    })
}
