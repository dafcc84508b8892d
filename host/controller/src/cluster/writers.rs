//! stub
use crate::{bus::EventBus, cluster::Shared, core::ActiveCore, supervisor::Supervisor};
use std::sync::Arc;
pub(crate) struct Writers;
impl Writers {
    pub(super) fn of(_shared: &Shared) -> Self {
        Self
    }
    pub(crate) fn spawn(&self, _bus: &Arc<EventBus>, _core: &ActiveCore, _supervisor: &mut Supervisor) {}
}
