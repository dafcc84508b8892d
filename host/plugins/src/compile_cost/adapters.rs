//! What the components inside a component share.
//!
//! A function that one of them lifts and another lowers becomes an adapter, in every instance of both. Which function
//! goes where is known only to the compiler, so this counts what there can be at most: every lowered function of every
//! instance is an adapter, and every instance is one of the heaviest component there is so far. An ordinary build has
//! no lifted or lowered function in the components inside it, and so no adapter.

use wasmparser::{
    CanonicalFunction, ComponentDefinedType, ComponentInstance, ComponentType, ComponentTypeDeclaration,
    ComponentTypeRef, Encoding, InstanceTypeDeclaration, Payload,
};

use super::{MAX_ADAPTED, MAX_INSTANCES, TooCostly};

/// What was seen so far.
#[derive(Default)]
pub(super) struct Adapters {
    /// The component at hand and those around it; `None` is a core module.
    open: Vec<Option<Open>>,
    heaviest: Weight,
    /// Fields of all types together.
    fields: u64,
    /// Whether a component inside lifts or lowers a function.
    shared: bool,
}

/// A component whose end was not seen yet.
#[derive(Default)]
struct Open {
    lowered: u64,
    instances: u64,
}

/// What one instance of a component brings, with those that it makes.
#[derive(Clone, Copy)]
struct Weight {
    instances: u64,
    lowered: u64,
}

// === impl Adapters ===

impl Adapters {
    pub(super) fn add(&mut self, payload: &Payload<'_>) -> Result<(), TooCostly> {
        match payload {
            Payload::Version { encoding, .. } => {
                self.open.push((*encoding == Encoding::Component).then(Open::default));
            }
            Payload::ComponentTypeSection(types) => {
                let fields = types.clone().into_iter().flatten().map(|ty| fields_of(&ty));
                self.fields = fields.fold(self.fields, u64::saturating_add);
            }
            Payload::ComponentImportSection(imports) => {
                let mut imports = imports.clone().into_iter().flatten();
                if imports.any(|import| matches!(import.ty, ComponentTypeRef::Component(_))) {
                    return Err(TooCostly::ComponentImport);
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                let made = instances.clone().into_iter().flatten();
                let made = made.filter(|instance| matches!(instance, ComponentInstance::Instantiate { .. })).count();
                if let Some(Some(open)) = self.open.last_mut() {
                    open.instances += made as u64;
                }
            }
            Payload::ComponentCanonicalSection(functions) => {
                let inside = self.open.len() > 1;
                let Some(Some(open)) = self.open.last_mut() else { return Ok(()) };
                for function in functions.clone().into_iter().flatten() {
                    match function {
                        CanonicalFunction::Lower { .. } => open.lowered += 1,
                        CanonicalFunction::Lift { .. } => {}
                        _ => continue,
                    }
                    self.shared |= inside;
                }
            }
            Payload::End(_) => {
                if let Some(Some(open)) = self.open.pop() {
                    return self.close(&open);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, open: &Open) -> Result<(), TooCostly> {
        let Weight { instances, lowered } = self.heaviest;
        let instances = open.instances.saturating_mul(instances).saturating_add(1);
        let lowered = open.instances.saturating_mul(lowered).saturating_add(open.lowered);
        if instances > MAX_INSTANCES {
            return Err(TooCostly::Instances { instances });
        }
        if self.shared && lowered.saturating_mul(self.fields) > MAX_ADAPTED {
            return Err(TooCostly::Adapters { adapters: lowered, fields: self.fields });
        }
        self.heaviest.instances = self.heaviest.instances.max(instances);
        self.heaviest.lowered = self.heaviest.lowered.max(lowered);
        Ok(())
    }
}

// === impl Weight ===

impl Default for Weight {
    fn default() -> Self {
        Self { instances: 1, lowered: 0 }
    }
}

fn fields_of(ty: &ComponentType<'_>) -> u64 {
    match ty {
        ComponentType::Defined(ty) => fields_of_value(ty),
        ComponentType::Func(function) => 1 + function.params.len() as u64,
        ComponentType::Component(declared) => declared.iter().map(fields_of_declaration).sum(),
        ComponentType::Instance(declared) => declared
            .iter()
            .map(|declared| match declared {
                InstanceTypeDeclaration::Type(ty) => fields_of(ty),
                _ => 0,
            })
            .sum(),
        ComponentType::Resource { .. } => 1,
    }
}

fn fields_of_declaration(declared: &ComponentTypeDeclaration<'_>) -> u64 {
    match declared {
        ComponentTypeDeclaration::Type(ty) => fields_of(ty),
        _ => 0,
    }
}

fn fields_of_value(ty: &ComponentDefinedType<'_>) -> u64 {
    match ty {
        ComponentDefinedType::Record(fields) => fields.len() as u64,
        ComponentDefinedType::Variant(cases) => cases.len() as u64,
        ComponentDefinedType::Tuple(values) => values.len() as u64,
        ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => names.len() as u64,
        ComponentDefinedType::FixedLengthList(_, length) => u64::from(*length),
        _ => 2,
    }
}
