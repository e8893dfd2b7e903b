//! Faults of the metadata endpoint as the API shows them.

use forewarn_api_types::{Fault, FaultKind, FaultMethod};
use forewarn_metadata::faults::{self, Method, Path};
use forewarn_render::Convert;

pub fn render_fault(fault: &faults::Fault) -> Fault {
    Fault {
        id: fault.id.0,
        machine: fault.machine.as_ref().map(|(_, name)| name.to_string()),
        fault: render_kind(fault.kind),
        count: fault.limit.count,
        for_seconds: fault.limit.span.map(|span| span.as_secs()),
        percent: fault.limit.percent,
        method: fault.only.method.map(|method| match method {
            Method::Get => FaultMethod::Get,
            Method::Post => FaultMethod::Post,
        }),
        documents_only: fault.only.path == Path::Events,
        since: fault.since.convert(),
        until: fault.until.map(Convert::convert),
        matched: fault.matched,
        affected: fault.affected,
    }
}

fn render_kind(kind: faults::FaultKind) -> FaultKind {
    match kind {
        faults::FaultKind::Status { status, retry_after_secs } => FaultKind::Status {
            status: status.code(),
            retry_after_seconds: status.has_retry_after().then_some(retry_after_secs),
        },
        faults::FaultKind::Delay(delay) => FaultKind::Delay(delay),
        faults::FaultKind::SlowFirstCall(delay) => FaultKind::SlowFirstCall(delay),
        faults::FaultKind::Reset => FaultKind::Reset,
        faults::FaultKind::Truncated => FaultKind::Truncated,
        faults::FaultKind::Malformed => FaultKind::Malformed,
        faults::FaultKind::IncarnationRestart => FaultKind::IncarnationRestart,
        faults::FaultKind::EventsVanish => FaultKind::EventsVanish,
        faults::FaultKind::UnknownType => FaultKind::UnknownType,
    }
}
