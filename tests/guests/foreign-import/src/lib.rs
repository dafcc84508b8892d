//! A component that asks for an interface of somebody else.

#[allow(clippy::pedantic, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "backdoored" });
}

struct Guest;

impl bindings::Guest for Guest {
    fn run() -> bool {
        bindings::evil::plugin::backdoor::open()
    }
}

bindings::export!(Guest with_types_in bindings);
