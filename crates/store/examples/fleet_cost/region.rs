//! Cost of the rules alone: memory per machine, and a mix of commands.

use std::time::Instant;

use forewarn_core::*;

use crate::fleet::{self, Fleet};

/// Number of commands in one turn of the mix.
const TURN: usize = 10;

/// Total memory of a fleet: the difference in resident pages, including overhead of the allocator.
pub fn memory(fleet: Fleet) -> Result<(), Box<dyn std::error::Error>> {
    let before = resident_bytes()?;
    let begun = Instant::now();
    let region = Region::load(fleet::settings(), fleet.entities())?;
    let millis = begun.elapsed().as_millis();
    let bytes = resident_bytes()? - before;
    println!("machines={} bytes={} load_ms={millis}", region.machines().len(), bytes / fleet.machines);
    Ok(())
}

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes * 1024)
}

/// Loads a fleet and applies `turns` of the mix. Callgrind counts only inside `commands`.
pub fn mix(fleet: Fleet, turns: u64) -> Result<(), Box<dyn std::error::Error>> {
    let region = Region::load(fleet::settings(), fleet.entities())?;
    let script: Vec<[Command; TURN]> = (0..turns).map(|turn| one_turn(fleet, turn)).collect();
    let begun = Instant::now();
    let region = commands(region, &script, fleet.start)?;
    let nanos = begun.elapsed().as_nanos() / (u128::from(turns) * TURN as u128);
    println!("machines={} commands={} nanos={nanos}", region.machines().len(), turns * TURN as u64);
    Ok(())
}

#[inline(never)]
fn commands(mut region: Region, script: &[[Command; TURN]], start: Timestamp) -> Result<Region, Rejection> {
    for (turn, commands) in script.iter().enumerate() {
        let now = start + std::time::Duration::from_secs(1 + turn as u64);
        for command in commands {
            region = region.apply(command, now)?.region;
        }
    }
    Ok(region)
}

/// A restart from request to end, maintenance of a host and its cancellation, a machine that is added and
/// removed, a change, and a tick. Each turn uses other machines of the fleet.
fn one_turn(fleet: Fleet, turn: u64) -> [Command; TURN] {
    let n = somewhere(fleet, turn);
    let machine = fleet.machine_id(n);
    let by = Name::from("bench");
    let id = |k| Guid(0x6d69_7800).derive(turn * 8 + k);
    let (restart, event, maintenance, new) = (id(0), id(1), id(2), id(3));
    let guest = Approver::Guest { machine, name: Fleet::name(n).into() };
    let request = |operation, request, event| Command::Request { operation, by: by.clone(), request, event };
    let host = Name::from(format!("host-{:06}", n / 20));
    let change = MachineChange { zone: Some(Some("2".into())), ..MachineChange::default() };
    [
        Command::Seen { machine },
        request(restart, Request::Restart { machines: vec![machine] }, Some(event)),
        Command::Approve { by: guest, within: ApprovalScope::ScopeOf(machine), events: vec![event] },
        Command::Report { event, report: Report::Done },
        request(maintenance, Request::Maintain { target: Target::Host(host), plan: freeze() }, None),
        Command::Cancel { operation: maintenance, by },
        Command::RegisterMachine(Box::new(new_machine(new, turn))),
        Command::ChangeMachine { machine, change: Box::new(change) },
        Command::SetPower { machine, power: Power::Running },
        Command::Tick,
    ]
}

/// A machine of the fleet for this turn. No machine repeats before all have been used.
pub fn somewhere(fleet: Fleet, turn: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b1) % fleet.machines
}

fn freeze() -> Plan {
    Plan {
        kind: EventKind::Freeze,
        cause: Cause::HostMaintenance,
        at: None,
        notice: None,
        duration_secs: None,
        description: None,
    }
}

fn new_machine(vm_id: Guid, turn: u64) -> NewMachine {
    NewMachine::plain(vm_id, &format!("new-{turn}"), fleet::home())
}
