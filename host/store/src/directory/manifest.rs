//! The objects of one file.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_api::{
    GROUP, ManifestSource,
    yaml::{self, Position, Step},
};
use haptic_model::{Finding, FindingCode, SourceLocation};
use serde_json::{Map, Value};

use super::tree::line_of;
use crate::RawObject;

#[derive(Default)]
pub(super) struct Parsed {
    pub(super) objects: Vec<RawObject>,
    pub(super) findings: Vec<Finding>,
    /// Every document of the file was understood.
    pub(super) complete: bool,
}

pub(super) fn parse(file: &Arc<str>, text: &str) -> Parsed {
    let mut parsed = Parsed { complete: true, ..Parsed::default() };
    let documents = if Path::new(&**file).extension().is_some_and(|extension| extension == "json") {
        json_documents(text)
    } else {
        yaml_documents(text)
    };
    match documents {
        Err((position, message)) => {
            let finding =
                Finding::error(FindingCode::InvalidManifest, format!("{message}; its last good objects stay"))
                    .at(Arc::clone(file), position.line, position.column)
                    .hint("correct the file");
            parsed.findings.push(finding);
            parsed.complete = false;
        }
        Ok(documents) => {
            let mut reader = Reader { file, text, shared: None, parsed: &mut parsed };
            for document in documents {
                reader.document(document);
            }
        }
    }
    parsed
}

struct Document {
    value: Value,
    start: Position,
    /// Where the items of a list stand.
    items: Vec<Position>,
}

struct Reader<'a> {
    file: &'a Arc<str>,
    text: &'a str,
    shared: Option<Arc<str>>,
    parsed: &'a mut Parsed,
}

type Broken = (Position, String);

fn yaml_documents(text: &str) -> Result<Vec<Document>, Broken> {
    let documents = yaml::read(text).map_err(|error| (error.position, error.to_string()))?;
    let documents = documents.into_iter().map(|document| {
        let start = document.start();
        let positions = document.clone();
        let value = document.into_value();
        let count = value["items"].as_array().map_or(0, Vec::len);
        let item = |index| positions.position(&[Step::Field("items".to_owned()), Step::Item(index)]);
        Document { start, items: (0..count).map(item).collect(), value }
    });
    Ok(documents.collect())
}

fn json_documents(text: &str) -> Result<Vec<Document>, Broken> {
    let mut documents = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let from = stream.byte_offset();
        let blank = text[from..].len() - text[from..].trim_start().len();
        let start = Position { line: line_of(&text.as_bytes()[..from + blank]), column: 1 };
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(Value::Null)) => {}
            Some(Ok(value)) => documents.push(Document { value, start, items: Vec::new() }),
            Some(Err(error)) => {
                let clamp = |number| u32::try_from(number).unwrap_or(u32::MAX);
                let position = Position { line: clamp(error.line()), column: clamp(error.column()) };
                return Err((position, format!("not valid JSON: {error}")));
            }
        }
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn document(&mut self, document: Document) {
        let Document { mut value, start, items } = document;
        let list_kind = value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
        let (Some(item_kind), Some(list)) = (list_kind, value.get_mut("items").and_then(Value::as_array_mut)) else {
            return self.object(value, start, start, Vec::new());
        };
        let list = std::mem::take(list);
        let api_version = value["apiVersion"].take();
        for (index, mut item) in list.into_iter().enumerate() {
            // The items of a typed list need not repeat what the list says.
            if let Some(fields) = item.as_object_mut().filter(|_| !item_kind.is_empty()) {
                fields.entry("apiVersion").or_insert_with(|| api_version.clone());
                fields.entry("kind").or_insert_with(|| item_kind.clone().into());
            }
            let position = items.get(index).copied().unwrap_or(start);
            self.object(item, start, position, vec![Step::Field("items".to_owned()), Step::Item(index)]);
        }
    }

    fn object(&mut self, mut value: Value, document: Position, position: Position, path: Vec<Step>) {
        if !value.is_object() {
            return self.refuse(position, "the document is no object");
        }
        let required = [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")];
        for (field, pointer) in required {
            match value.pointer(pointer) {
                None | Some(Value::Null) => return self.refuse(position, &format!("{field} is missing")),
                Some(Value::String(text)) if text.is_empty() => {
                    return self.refuse(position, &format!("{field} is empty"));
                }
                Some(Value::String(_)) => {}
                Some(_) => return self.refuse(position, &format!("{field} must be a text; put it in quotes")),
            }
        }
        let Some(namespace) = place(&mut value) else {
            return self.refuse(position, "metadata.namespace must be a text; put it in quotes");
        };
        if value["kind"] == "Secret" && value["apiVersion"] == "v1" {
            encode_string_data(&mut value);
        }
        let source = SourceLocation { file: Arc::clone(self.file), line: position.line, column: position.column };
        let Some(object) = RawObject::new(&value, &namespace, source) else { return };
        let object = if object.group() == GROUP {
            let text = self.shared.get_or_insert_with(|| self.text.into());
            object.with_manifest(Arc::new(ManifestSource {
                file: Arc::clone(self.file),
                line: document.line,
                text: Arc::clone(text),
                path,
            }))
        } else {
            object
        };
        self.parsed.objects.push(object);
    }

    fn refuse(&mut self, position: Position, message: &str) {
        let finding = Finding::error(FindingCode::InvalidManifest, format!("not a Kubernetes object: {message}"))
            .at(Arc::clone(self.file), position.line, position.column)
            .hint("correct the document");
        self.parsed.findings.push(finding);
        self.parsed.complete = false;
    }
}

/// Gives the object the namespace that the API server would: `default` if it says none, none if its kind has none.
fn place(value: &mut Value) -> Option<String> {
    let cluster_scoped = value["kind"].as_str().is_some_and(|kind| CLUSTER_SCOPED.contains(&kind));
    let metadata = value["metadata"].as_object_mut()?;
    if cluster_scoped {
        metadata.remove("namespace");
        return Some(String::new());
    }
    match metadata.get("namespace") {
        Some(Value::String(namespace)) if !namespace.is_empty() => Some(namespace.clone()),
        None | Some(Value::Null | Value::String(_)) => {
            metadata.insert("namespace".to_owned(), "default".into());
            Some("default".to_owned())
        }
        Some(_) => None,
    }
}

/// Moves `stringData` into `data`, as the API server does when it is written.
fn encode_string_data(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let Some(data) = data.as_object_mut() else { return };
    for (name, text) in texts {
        if let Value::String(text) = text {
            data.insert(name, BASE64_STANDARD.encode(text).into());
        }
    }
}

/// Kinds without a namespace.
const CLUSTER_SCOPED: [&str; 24] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterIssuer",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "GatewayClass",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];
