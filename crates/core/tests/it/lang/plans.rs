//! The words of the script language for hosts, drains and rollouts.

use std::time::Duration;

use forewarn_core::*;

use super::{World, duration};

impl World {
    /// A command of this module. None: the word belongs to another.
    pub(super) fn plan_command(&mut self, words: &[&str], text: Option<&str>) -> Result<Option<Command>, String> {
        let rest = &words[1..];
        Ok(Some(match words[0] {
            "host" => match rest.len() {
                1 => Command::RegisterHost { name: rest[0].into() },
                _ => Command::ChangeHost { name: rest[0].into(), change: host_change(&rest[1..])? },
            },
            "drain" => {
                let plan = drain_plan(rest, text)?;
                self.request(Request::Drain(plan))
            }
            "activate" => Command::ActivateHost { name: rest[0].into(), by: "test".into() },
            "fence" => Command::FenceHost { name: rest[0].into() },
            "confirm" => {
                let revision = rest.get(1).map_or(Ok(self.region.meta().revision), |text| number(text))?;
                Command::ConfirmHost { name: rest[0].into(), revision }
            }
            "report" => Command::ReportMachine {
                event: self.event(rest[0])?,
                machine: self.machine(rest[1])?,
                host: rest[2].into(),
                epoch: rest.get(4).and_then(|word| word.strip_prefix("epoch=")).map(number).transpose()?,
                report: machine_report(rest[3])?,
            },
            "claim" | "leave" => Command::ClaimMachine {
                machine: self.machine(rest[0])?,
                host: rest[1].into(),
                present: words[0] == "claim",
            },
            "lose" => Command::LoseHost { name: rest[0].into() },
            "rollout" => self.rollout_command(rest, text)?,
            "pause" => Command::PauseRollout { rollout: self.rollout(rest[0])?, now: rest.contains(&"now") },
            "resume" => Command::ResumeRollout { rollout: self.rollout(rest[0])? },
            "stop" => Command::StopRollout { rollout: self.rollout(rest[0])?, by: "test".into() },
            "retry" => {
                let id = rest.iter().find_map(|word| word.strip_prefix("key=")).map(number).transpose()?;
                let steps =
                    rest[1..].iter().filter(|word| !word.starts_with("key=")).map(|word| self.step_target(word));
                Command::RetrySteps {
                    rollout: self.rollout(rest[0])?,
                    steps: steps.collect::<Result<_, _>>()?,
                    operation: id.map_or_else(|| self.guid(), |id| Guid(u128::from(id))),
                }
            }
            _ => return Ok(None),
        }))
    }

    fn rollout_command(&mut self, words: &[&str], text: Option<&str>) -> Result<Command, String> {
        let names: Vec<&str> = words[1].split(',').collect();
        let targets = match words[0] {
            "vms" => RolloutTargets::Machines(self.machines(&names)?),
            "hosts" => RolloutTargets::Hosts(names.into_iter().map(Into::into).collect()),
            _ => RolloutTargets::Groups(names.iter().map(|name| self.group(name)).collect::<Result<_, _>>()?),
        };
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let action = match words[2] {
            "freeze" => RolloutAction::Freeze,
            "reboot" => RolloutAction::Reboot,
            "redeploy" => RolloutAction::Redeploy,
            _ => RolloutAction::Drain { to: option("to=").map(Into::into), machines_parallel: 10, in_place: false },
        };
        let windows = words.iter().filter_map(|word| word.strip_prefix("window=")).map(window);
        let id = self.guid();
        self.rollouts.push(id);
        Ok(Command::StartRollout(Box::new(NewRollout {
            id,
            by: "test".into(),
            targets,
            plan: RolloutPlan {
                action,
                at: option("at=").map(duration).transpose()?.map(|ahead| self.now + ahead),
                parallel: option("parallel=").map_or(Ok(1), number)? as u32,
                pause: option("pause=").map_or(Ok(Duration::ZERO), duration)?,
                windows: windows.collect::<Result<_, _>>()?,
                unavailable_max: option("max=").map(number).transpose()?.map(|n| n as u32),
                failures_max: option("failures=").map_or(Ok(0), number)? as u32,
                notice: option("notice=").map(duration).transpose()?,
                duration_secs: None,
                description: text.map(Into::into),
            },
        })))
    }

    /// `h1`, `s/0` (an update domain), or `vm:a`.
    fn step_target(&self, word: &str) -> Result<StepTarget, String> {
        Ok(match (word.strip_prefix("vm:"), word.split_once('/')) {
            (Some(machine), _) => StepTarget::Machine(self.machine(machine)?),
            (None, Some((group, domain))) => {
                StepTarget::Domain { group: self.group(group)?, domain: number(domain)? as u32 }
            }
            (None, None) => StepTarget::Host(word.into()),
        })
    }

    fn rollout(&self, label: &str) -> Result<RolloutId, String> {
        let number: usize = label.strip_prefix('r').and_then(|n| n.parse().ok()).ok_or("no such rollout")?;
        Ok(self.rollouts.get(number - 1).copied().unwrap_or(Guid(0xdead)))
    }

    /// State, reason and steps: `Running | InProgress Pending`.
    pub(super) fn show_rollout(&self, label: &str) -> Result<String, String> {
        let Some(rollout) = self.region.rollout(self.rollout(label)?) else { return Ok("forgotten".into()) };
        let reason = rollout.waits_for.as_ref().map_or(String::new(), |wait| format!(" {}", show_wait(wait)));
        let steps: Vec<&str> = rollout.steps.iter().map(|step| step.state.as_str()).collect();
        Ok(format!("{}{reason} | {}", rollout.state.as_str(), steps.join(" ")))
    }

    /// The requested facts: `failures=1 reason=HostFailed`. The reason is that of the first failed step.
    pub(super) fn rollout_facts(&self, label: &str, asked: &str) -> Result<String, String> {
        let rollout = self.region.rollout(self.rollout(label)?).ok_or("no such rollout")?;
        let failure = rollout.steps.iter().find_map(|step| self.region.failure_of_step(rollout, step));
        let reason = match failure {
            Some(Outcome::Failed(reason)) => reason.to_string(),
            Some(outcome) => format!("{outcome:?}"),
            None => "-".into(),
        };
        let show = |word: &str| match word.split('=').next() {
            Some("failures") => format!("failures={}", rollout.failures),
            _ => format!("reason={reason}"),
        };
        Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "))
    }

    /// State and machines: `Draining a,b waits for capacity a`.
    pub(super) fn show_host(&self, host: &Host) -> String {
        let machines = self.region.machines_on(&host.name).map(|machine| self.name(machine.id, &machine.name));
        let machines: Vec<String> = machines.collect();
        let machines = if machines.is_empty() { "-".into() } else { machines.join(",") };
        let drain = self.region.drain_of(&host.name).and_then(|operation| operation.drain.as_ref()?.waits_for.as_ref());
        let wait = drain.map_or(String::new(), |wait| format!(" waits for {}", show_wait(wait)));
        let lost = if host.is_unreachable() { " lost" } else { "" };
        format!("{}{lost} {machines}{wait}", host.state.as_str())
    }
}

fn show_wait(wait: &Wait) -> String {
    let word = wait.as_str();
    match wait {
        Wait::Window { .. } | Wait::Start { .. } | Wait::Pause { .. } | Wait::Approvals | Wait::Paused => word.into(),
        Wait::Availability { group, unavailable, max } => format!("{word} {group} {unavailable}/{max}"),
        Wait::Capacity { machine } => format!("{word} {machine}"),
        Wait::Host(host) => format!("{word} {host}"),
    }
}

fn host_change(words: &[&str]) -> Result<HostChange, String> {
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let memory = |text: &str| if text == "-" { Ok(None) } else { number(text).map(Some) };
    Ok(HostChange {
        pool: option("pool=").map(Into::into),
        labels: None,
        memory_mib: option("mem=").map(memory).transpose()?,
    })
}

fn drain_plan(words: &[&str], text: Option<&str>) -> Result<DrainPlan, String> {
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    Ok(DrainPlan {
        host: words[0].into(),
        to: option("to=").map(Into::into),
        parallel: option("parallel=").map_or(Ok(10), number)? as u32,
        unavailable_max: option("max=").map(number).transpose()?.map(|n| n as u32),
        notice: option("notice=").map(duration).transpose()?,
        in_place: words.contains(&"in-place"),
        description: text.map(Into::into),
    })
}

/// `08:00-10:30`, every day, in UTC.
fn window(text: &str) -> Result<Window, String> {
    let minute = |text: &str| -> Result<u32, String> {
        let (hour, minute) = text.split_once(':').ok_or("no time of day")?;
        Ok(number(hour)? as u32 * 60 + number(minute)? as u32)
    };
    let (start, end) = text.split_once('-').ok_or("no window")?;
    Ok(Window { days: Weekdays::ALL, start_minute: minute(start)?, end_minute: minute(end)?, zone: Zone::utc() })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

fn machine_report(word: &str) -> Result<MachineReport, String> {
    Ok(match word.split_once('=') {
        Some(("moved", to)) => MachineReport::Moved { to: to.into() },
        Some(_) => return Err(format!("'{word}' is no report")),
        None => match word {
            "done" => MachineReport::Done,
            "failed" => MachineReport::Failed("it broke".into()),
            "gone" => MachineReport::Gone,
            _ => return Err(format!("'{word}' is no report")),
        },
    })
}
