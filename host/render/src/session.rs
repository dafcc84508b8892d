//! The state of one render. Host functions reach it through a thread-local: an engine state lives only as long as one
//! template, and macros see nothing of the context that they do not name. A render never leaves its thread.

use std::{cell::RefCell, sync::Arc};

use haptic_model::{
    FilePath, Finding, ObjectRef,
    ports::{FilterCall, FilterError, FilterSession},
};
use haptic_store::{Object, Read, Snapshot, Stamp};
use minijinja::{Error, Value};

use crate::{
    Inputs, Memo, RawText, RenderError,
    answers::Answers,
    blocks::OpenBackend,
    compile::{Compiled, FileSource, Names},
    failure::{self, Cause, Fault},
    records::{MapDeclaration, Records, UnitOutput},
    snippet::{Earlier, PlayedUnit},
};

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
}

pub(crate) struct Session {
    pub(crate) inputs: Inputs,
    pub(crate) memo: Memo,
    pub(crate) raw_text: RawText,
    pub(crate) names: Arc<Names>,
    /// Every unit in the order it was rendered; its index stands in the text.
    pub(crate) units: Vec<Arc<UnitOutput>>,
    filters: Box<dyn FilterSession>,
    pub(crate) answers: Answers,
    /// The templates outside of units at the bottom, the running unit on top.
    frames: Vec<Frame>,
}

/// What is being collected.
#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) records: Records,
    pub(crate) reads: Reads,
    pub(crate) object: Option<ObjectRef>,
    is_unit: bool,
    /// The snippet of a hook that runs, outside of units.
    pub(crate) snippet: Option<Arc<str>>,
    /// The units of that snippet so far.
    pub(crate) played: Vec<PlayedUnit>,
    /// Those that it gave in the last render.
    pub(crate) earlier: Option<Earlier>,
    pub(crate) backend: Option<OpenBackend>,
}

/// What was read, each read once.
#[derive(Default)]
pub(crate) struct Reads {
    pub(crate) list: Vec<(Read, Stamp)>,
    /// More were made than are worth comparing.
    many: bool,
}

/// A snippet that reads more than this outside of units is not remembered.
const MOST_SNIPPET_READS: usize = 256;

/// What a render produced, before assembly.
pub(crate) struct Outcome {
    /// The main template's text, units marked.
    pub(crate) core: String,
    /// Text of the templates that are files of their own.
    pub(crate) files: Vec<(FileSource, String)>,
    /// Declared outside of units.
    pub(crate) records: Records,
    pub(crate) units: Vec<Arc<UnitOutput>>,
}

/// Renders the main template and every file template.
pub(crate) fn run(compiled: &Compiled, inputs: &Inputs, memo: &mut Memo) -> Result<Outcome, RenderError> {
    let mut taken = std::mem::take(memo);
    taken.begin(compiled.id, inputs);
    let session = Session {
        inputs: inputs.clone(),
        memo: taken,
        raw_text: compiled.raw_text,
        names: Arc::clone(&compiled.names),
        units: Vec::new(),
        filters: compiled.filters.session(),
        answers: Answers::default(),
        frames: vec![Frame::default()],
    };
    CURRENT.with_borrow_mut(|current| *current = Some(session));
    let rendered = render_templates(compiled);
    let session = CURRENT.with_borrow_mut(Option::take).expect("the session set above");
    *memo = session.memo;
    let (core, files) = rendered.inspect_err(|_| memo.doubt())?;
    let bottom = session.frames.into_iter().next().expect("the bottom frame is never popped");
    memo.end(inputs);
    Ok(Outcome { core, files, records: bottom.records, units: session.units })
}

type Texts = (String, Vec<(FileSource, String)>);

fn render_templates(compiled: &Compiled) -> Result<Texts, RenderError> {
    let render = |name: &str| {
        let template = compiled.env.get_template(name);
        template
            .and_then(|template| template.render(()))
            .map_err(|error| RenderError { findings: vec![failure::finding(&compiled.names, &error, None)] })
    };
    let core = render(&compiled.main)?;
    let mut files = Vec::new();
    for source in &compiled.files {
        files.push((source.clone(), render(&source.template)?));
    }
    Ok((core, files))
}

/// Runs `f` on the session of this thread.
pub(crate) fn with<T>(f: impl FnOnce(&mut Session) -> T) -> Result<T, Error> {
    CURRENT
        .with_borrow_mut(|current| current.as_mut().map(f))
        .ok_or_else(|| Cause::usage("this function works only while a configuration renders").into())
}

/// As [`with`], for a body that may fail.
pub(crate) fn try_with<T>(f: impl FnOnce(&mut Session) -> Result<T, Cause>) -> Result<T, Error> {
    with(f)?.map_err(Error::from)
}

// === impl Session ===

impl Session {
    pub(crate) fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the bottom frame is never popped")
    }

    pub(crate) fn records(&mut self) -> &mut Records {
        &mut self.frame().records
    }

    pub(crate) fn push(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    pub(crate) fn pop(&mut self) -> Frame {
        debug_assert!(self.frames.len() > 1, "the bottom frame is never popped");
        self.frames.pop().unwrap_or_default()
    }

    /// Whether nothing runs but the templates of the set.
    pub(crate) fn is_outermost(&self) -> bool {
        self.frames.len() == 1
    }

    pub(crate) fn in_unit(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_unit)
    }

    /// The snapshot, with `read` recorded as an input of what is being rendered.
    pub(crate) fn read(&mut self, read: Read) -> Arc<Snapshot> {
        let snapshot = Arc::clone(&self.inputs.snapshot);
        let frame = self.frame();
        if frame.is_unit || frame.snippet.is_some() {
            let most = if frame.is_unit { usize::MAX } else { MOST_SNIPPET_READS };
            frame.reads.add(read, &snapshot, most);
        }
        snapshot
    }

    pub(crate) fn declare_map(&mut self, declaration: MapDeclaration) {
        let maps = &mut self.records().maps;
        if !maps.contains(&declaration) {
            maps.push(declaration);
        }
    }

    pub(crate) fn declare_crt_list(&mut self, list: FilePath) {
        let lists = &mut self.records().crt_lists;
        if !lists.contains(&list) {
            lists.push(list);
        }
    }

    pub(crate) fn report(&mut self, finding: Finding) {
        let finding = match self.frame().object.clone() {
            Some(object) if finding.object.is_none() => finding.about(Some(object)),
            _ => finding,
        };
        self.records().findings.push(finding);
    }

    pub(crate) fn call_filter(&mut self, call: FilterCall<'_>) -> Result<String, Cause> {
        self.filters.call(call).map_err(|error| match error {
            FilterError::Refused { .. } => Cause::data(haptic_model::FindingCode::InvalidValue, error.to_string()),
            FilterError::Failed(failure) => Cause::system(haptic_model::FindingCode::PluginFailed, failure.to_string())
                .hint("see the plugin's status; raise its limits or repair the plugin"),
        })
    }
}

// === impl Frame ===

impl Frame {
    pub(crate) fn of_unit(object: Option<ObjectRef>) -> Self {
        Self { object, is_unit: true, ..Self::default() }
    }

    pub(crate) fn of_snippet(snippet: &Arc<str>, earlier: Option<Earlier>) -> Self {
        Self { snippet: Some(Arc::clone(snippet)), earlier, ..Self::default() }
    }

    /// The next unit as it was in the last render, if that was of this item and would be the same now.
    pub(crate) fn earlier_unit(&mut self, snippet: &str, item: &Value) -> Option<PlayedUnit> {
        self.earlier.as_mut()?.take(snippet, Object::from_value(item)?, self.played.len())
    }
}

// === impl Reads ===

impl Reads {
    fn add(&mut self, read: Read, snapshot: &Snapshot, most: usize) {
        if self.many || self.list.iter().any(|(known, _)| *known == read) {
            return;
        }
        if self.list.len() == most {
            self.many = true;
            return;
        }
        let stamp = snapshot.stamp(&read);
        self.list.push((read, stamp));
    }

    /// All of them; `None` = they were too many to be kept.
    pub(crate) fn complete(self) -> Option<Vec<(Read, Stamp)>> {
        (!self.many).then_some(self.list)
    }
}

/// Whether `error` ends the render, or only the unit that met it.
pub(crate) fn ends_the_render(error: &Error) -> bool {
    failure::fault(error) == Fault::System
}

/// A value that the engine prints as it is.
pub(crate) fn safe(text: impl Into<String>) -> Value {
    Value::from_safe_string(text.into())
}
