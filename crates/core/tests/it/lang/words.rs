//! The commands of the script language.

use std::sync::Arc;

use forewarn_core::*;

use super::{Line, World, duration, numbered};

impl World {
    // --- commands --------------------------------------------------------------------------------

    pub(super) fn command(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        let (given, words): (Vec<_>, Vec<&str>) =
            words.iter().copied().partition(|word| word.starts_with("id=") || word.starts_with("op="));
        let mut command = self.plain_command(&words, text)?;
        for word in given {
            let Command::Request { operation, event, .. } = &mut command else { return Err("not a request".into()) };
            match word.split_at(3) {
                ("id=", number) if numbered(number, "e") => *event = Some(self.event(number)?),
                ("id=", number) => *event = Some(Guid(number.parse().map_err(|_| "not a number")?)),
                (_, label) => *operation = self.operation(label)?,
            }
        }
        Ok(command)
    }

    fn plain_command(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        if let Some(command) = self.plan_command(words, text)? {
            return Ok(command);
        }
        let rest = &words[1..];
        Ok(match words[0] {
            "vm" => Command::RegisterMachine(Box::new(self.new_machine(rest, NewMembership::Standalone)?)),
            "set" => self.new_set(rest)?,
            "unhost" => Command::RemoveHost { name: rest[0].into() },
            "move" => {
                let host = Some((rest[1] != "-").then(|| rest[1].into()));
                self.change(rest[0], MachineChange { host, ..Default::default() })?
            }
            "ud" => {
                let update_domain = Some(rest[1].parse().map_err(|_| "not a domain")?);
                self.change(rest[0], MachineChange { update_domain, ..Default::default() })?
            }
            "fd" => {
                let fault_domain = Some(rest[1].parse().map_err(|_| "not a domain")?);
                self.change(rest[0], MachineChange { fault_domain, ..Default::default() })?
            }
            "zone" => {
                let zone = Some((rest[1] != "-").then(|| rest[1].into()));
                self.change(rest[0], MachineChange { zone, ..Default::default() })?
            }
            "addr" => {
                let addresses = Some(rest[1..].iter().map(|ip| address(ip)).collect::<Result<_, _>>()?);
                self.change(rest[0], MachineChange { addresses, ..Default::default() })?
            }
            "term" => {
                let terminate = Some(if rest[1] == "none" { None } else { Some(profile(rest[1])?) });
                self.change(rest[0], MachineChange { terminate, ..Default::default() })?
            }
            "join" => self.join(rest)?,
            "unprotect" => self.change(rest[0], MachineChange { protected: Some(false), ..Default::default() })?,
            "protect" => self.change(rest[0], MachineChange { protected: Some(true), ..Default::default() })?,
            "policy" => self.policy(rest)?,
            "on" => Command::Seen { machine: self.machine(rest[0])? },
            "off" => self.power(rest[0], Power::Stopped)?,
            "start" => self.change_power(rest, Power::Running)?,
            "shutdown" => self.change_power(rest, Power::Stopped)?,
            "deallocate" => self.change_power(rest, Power::Deallocated)?,
            "restart" => {
                let machines = self.machines(rest)?;
                self.request(Request::Restart { machines })
            }
            "redeploy" => {
                let machines = self.machines(rest)?;
                self.request(Request::Redeploy { machines })
            }
            "perform" => {
                let machines = self.machines(rest)?;
                self.request(Request::PerformMaintenance { machines })
            }
            "evict" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::Evict { machine })
            }
            "rebalance" => {
                let machine = self.machine(rest[0])?;
                self.request(Request::RecommendRebalance { machine })
            }
            "delete" => {
                let machines = self.machines(rest)?;
                self.request(Request::Delete { machines, group: None })
            }
            "drop" => {
                let group = Some(self.group(rest[0])?);
                let machines = self.machines(&rest[1..])?;
                self.request(Request::Delete { machines, group })
            }
            "fail" => {
                let (target, rest) = self.target(rest)?;
                let kind = rest.first().map_or(Ok(EventKind::Reboot), |word| kind(word))?;
                self.request(Request::Fail { target, kind })
            }
            "maintain" => self.maintain(rest, text)?,
            "cancel" => Command::Cancel { operation: self.operation(rest[0])?, by: "test".into() },
            "cancel-event" => Command::CancelEvent { event: self.event(rest[0])?, by: "test".into() },
            "approve" => {
                let machine = self.machine(rest[0])?;
                let events = rest[1..].iter().map(|label| self.event(label)).collect::<Result<_, _>>()?;
                Command::Approve {
                    by: Approver::Guest { machine, name: rest[0].into() },
                    within: ApprovalScope::ScopeOf(machine),
                    events,
                }
            }
            "ack" => {
                let (group, events): (Vec<_>, Vec<&str>) = rest.iter().copied().partition(|word| word.contains('='));
                let within = match group.first().and_then(|word| word.strip_prefix("in=")) {
                    Some(group) => ApprovalScope::Group(self.group(group)?),
                    None => ApprovalScope::Region,
                };
                let events = events.iter().map(|label| self.event(label)).collect::<Result<_, _>>()?;
                Command::Approve { by: Approver::Management("test".into()), within, events }
            }
            "done" => Command::Report { event: self.event(rest[0])?, report: Report::Done },
            "failed" => Command::Report { event: self.event(rest[0])?, report: Report::Failed("it broke".into()) },
            "scale" => {
                let capacity = rest[1].parse().map_err(|_| "not a number")?;
                let scale = Scale { capacity, by: "test".into(), operation: self.guid() };
                self.change_group(rest[0], GroupChange { capacity: Some(scale), ..Default::default() })?
            }
            "model" => self.model(rest)?,
            "mode" => {
                let upgrade_mode = Some(mode(rest[1])?);
                self.change_group(rest[0], GroupChange { upgrade_mode, ..Default::default() })?
            }
            "upgrade" => {
                Command::UpgradeInstances { group: self.group(rest[0])?, machines: self.machines(&rest[1..])? }
            }
            other => return Err(format!("no such word: {other}")),
        })
    }

    pub(super) fn request(&mut self, request: Request) -> Command {
        Command::Request { operation: self.guid(), by: "test".into(), request, event: None }
    }

    fn change(&mut self, name: &str, change: MachineChange) -> Result<Command, String> {
        Ok(Command::ChangeMachine { machine: self.machine(name)?, change: Box::new(change) })
    }

    fn change_group(&mut self, name: &str, change: GroupChange) -> Result<Command, String> {
        Ok(Command::ChangeGroup { group: self.group(name)?, change: Box::new(change), salt: self.guid() })
    }

    /// The order has the ID of an event that does not exist: `report e99 …` reports on it. `start a e98` gives another.
    fn change_power(&self, words: &[&str], power: Power) -> Result<Command, String> {
        let order = self.event(words.get(1).unwrap_or(&"e99"))?;
        Ok(Command::ChangePower { machine: self.machine(words[0])?, power, order })
    }

    fn power(&self, name: &str, power: Power) -> Result<Command, String> {
        Ok(Command::SetPower { machine: self.machine(name)?, power })
    }

    fn policy(&mut self, words: &[&str]) -> Result<Command, String> {
        if words[1] == "none" {
            return self.change(words[0], MachineChange { policy: Some(None), ..Default::default() });
        }
        let has = |word| words[1].split(',').any(|each| each == word);
        let policy = EventsPolicy {
            approve_user_reboot: has("reboot"),
            approve_user_redeploy: has("redeploy"),
            approve_all_instances_down: !has("-down"),
        };
        if self.group(words[0]).is_ok() {
            return self.change_group(words[0], GroupChange { policy: Some(policy), ..Default::default() });
        }
        self.change(words[0], MachineChange { policy: Some(Some(policy)), ..Default::default() })
    }

    fn maintain(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        let (target, rest) = self.target(words)?;
        let option = |name: &str| rest.iter().find_map(|word| word.strip_prefix(name)).map(duration).transpose();
        let ago = option("ago=")?.map(|span| self.now - span);
        let secs = rest.iter().find_map(|word| word.strip_prefix("secs=")).map(str::parse).transpose();
        let plan = Plan {
            kind: kind(rest[0])?,
            cause: if rest.contains(&"migration") { Cause::LiveMigration } else { Cause::HostMaintenance },
            at: option("in=")?.map(|span| self.now + span).or(ago),
            notice: option("notice=")?,
            duration_secs: secs.map_err(|_| "not a number")?,
            description: text.map(Into::into),
        };
        Ok(self.request(Request::Maintain { target, plan }))
    }

    fn model(&mut self, words: &[&str]) -> Result<Command, String> {
        let group = self.region.group(self.group(words[0])?).unwrap();
        let GroupKind::ScaleSet(set) = &group.kind else { return Err("not a set".into()) };
        let mut model = set.model.clone();
        match words[1].strip_prefix("term=") {
            Some("none") => model.terminate = None,
            Some(text) => model.terminate = Some(profile(text)?),
            None => model.priority = Priority::Spot,
        }
        self.change_group(words[0], GroupChange { model: Some(model), ..Default::default() })
    }

    fn new_machine(&mut self, words: &[&str], place: NewMembership) -> Result<NewMachine, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        Ok(NewMachine {
            vm_id: match option("vmid=") {
                Some(other) => self.region.machine(self.machine(other)?).ok_or("no such machine")?.vm_id,
                None => self.guid(),
            },
            name: words[0].into(),
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            place,
            host: option("host=").map(Into::into),
            update_domain: option("ud=").map(|n| n.parse().unwrap()),
            fault_domain: option("fd=").map(|n| n.parse().unwrap()),
            zone: option("zone=").map(Into::into),
            priority: if words.contains(&"spot") { Priority::Spot } else { Priority::Regular },
            eviction: if words.contains(&"policy=delete") {
                EvictionPolicy::Delete
            } else {
                EvictionPolicy::Deallocate
            },
            addresses: match option("ip=") {
                Some("pool") => AddressRequest::FromPool,
                Some(ip) => AddressRequest::Given(vec![address(ip)?]),
                None => AddressRequest::None,
            },
            terminate: option("term=").map(profile).transpose()?,
            policy: None,
            memory_mib: option("mem=").map_or(0, |n| n.parse().unwrap()),
            live_migratable: !words.contains(&"fixed"),
            details: Default::default(),
        })
    }

    pub(super) fn group_with_members(&mut self, words: &[&str], refusal: Option<&str>) -> Line {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let avset = words[0] == "avset";
        let new = NewGroup {
            name: words[1].into(),
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            kind: if avset { NewGroupKind::AvailabilitySet } else { NewGroupKind::CloudService },
            policy: EventsPolicy::default(),
            update_domains: option("uds=").map(|n| n.parse().unwrap()),
            fault_domains: option("fds=").map(|n| n.parse().unwrap()),
            salt: self.guid(),
        };
        self.expect(&Command::CreateGroup(Box::new(new)), refusal)?;
        if refusal.is_some() {
            return Ok(());
        }
        let (options, names): (Vec<_>, Vec<&str>) = words[2..].iter().copied().partition(|word| word.contains('='));
        for name in names {
            let all: Vec<&str> = [words[1], name].into_iter().chain(options.iter().copied()).collect();
            let command = self.join(&all)?;
            self.expect(&command, None)?;
        }
        Ok(())
    }

    fn join(&mut self, words: &[&str]) -> Result<Command, String> {
        let id = self.group(words[0])?;
        let kind = match words.iter().find_map(|word| word.strip_prefix("as=")) {
            Some(kind) => kind,
            None => match self.region.group(id).map(|group| &group.kind) {
                Some(GroupKind::CloudService) => "service",
                Some(GroupKind::ScaleSet(_)) => "instance",
                Some(GroupKind::AvailabilitySet) | None => "avset",
            },
        };
        let place = match kind {
            "service" => NewMembership::CloudService { service: id, role: "FrontEnd".into() },
            "instance" => NewMembership::FlexibleSet(id),
            _ => NewMembership::AvailabilitySet(id),
        };
        Ok(Command::RegisterMachine(Box::new(self.new_machine(&words[1..], place)?)))
    }

    fn new_set(&mut self, words: &[&str]) -> Result<Command, String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let zones: u32 = option("zones=").map_or(0, |n| n.parse().unwrap());
        let kind = NewGroupKind::ScaleSet {
            orchestration: if words[1] == "flexible" { Orchestration::Flexible } else { Orchestration::Uniform },
            upgrade_mode: option("mode=").map_or(Ok(UpgradeMode::Automatic), mode)?,
            capacity: words[2].parse().map_err(|_| "not a number")?,
            placement_group_max: option("max=").map(|n| n.parse().unwrap()),
            zones: (1..=zones).map(|n| n.to_string().into()).collect(),
            model: SetModel {
                priority: if words.contains(&"spot") { Priority::Spot } else { Priority::Regular },
                eviction: if words.contains(&"policy=delete") {
                    EvictionPolicy::Delete
                } else {
                    EvictionPolicy::Deallocate
                },
                terminate: option("term=").map(profile).transpose()?,
                details: Default::default(),
            },
        };
        Ok(Command::CreateGroup(Box::new(NewGroup {
            name: words[0].into(),
            home: home(option("sub=").unwrap_or("s"), option("rg=").unwrap_or("rg")),
            kind,
            policy: EventsPolicy::default(),
            update_domains: option("ud=").map(|n| n.parse().unwrap()),
            fault_domains: option("fd=").map(|n| n.parse().unwrap()),
            salt: self.guid(),
        })))
    }
}

fn home(subscription: &str, resource_group: &str) -> ResourceGroupRef {
    ResourceGroupRef { subscription: subscription.into(), resource_group: resource_group.into() }
}

fn address(ip: &str) -> Result<Address, String> {
    Ok(Address { network: "default".into(), ip: ip.parse().map_err(|_| format!("'{ip}' is no address"))? })
}

fn mode(word: &str) -> Result<UpgradeMode, String> {
    Ok(match word {
        "automatic" => UpgradeMode::Automatic,
        "manual" => UpgradeMode::Manual,
        "rolling" => UpgradeMode::Rolling,
        other => return Err(format!("no such mode: {other}")),
    })
}

fn profile(text: &str) -> Result<Arc<TerminateProfile>, String> {
    Ok(Arc::new(TerminateProfile { timeout: duration(text)?, text: text.into() }))
}

fn kind(word: &str) -> Result<EventKind, String> {
    Ok(match word {
        "freeze" => EventKind::Freeze,
        "reboot" => EventKind::Reboot,
        "redeploy" => EventKind::Redeploy,
        "preempt" => EventKind::Preempt,
        "terminate" => EventKind::Terminate,
        other => return Err(format!("no such type: {other}")),
    })
}
