//! Runs parts in lanes: each part is a process with a log and a deadline.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{WaitId, WaitIdOptions};

use crate::stat::Stat;
use crate::{EXIT_SKIPPED, sh};

/// Parts of a lane run one after the other, except in the waiting lane. It gets one more worker when the CPU lane is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Parts that keep all cores busy.
    Cpu,
    /// Parts that mostly wait.
    Waiting,
}

impl Lane {
    /// How many parts of the lane run at once.
    fn width(self) -> usize {
        match self {
            Lane::Cpu => 1,
            Lane::Waiting => 2,
        }
    }
}

pub struct Part {
    name: String,
    lane: Lane,
    deadline: Duration,
    command: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    /// Parts that must be done before this one starts.
    after: Vec<&'static str>,
    /// Parts that depend on this one run even if it is skipped.
    even_if_skipped: bool,
}

impl Part {
    pub fn cargo(name: &str, lane: Lane, deadline: Duration, arguments: &[&str]) -> Part {
        Part::new(name, lane, deadline, sh::cargo_path(), arguments)
    }

    /// Another command of this program.
    pub fn xtask(name: &str, lane: Lane, deadline: Duration, arguments: &[&str]) -> Result<Part> {
        Ok(Part::new(name, lane, deadline, std::env::current_exe()?.into(), arguments))
    }

    fn new(name: &str, lane: Lane, deadline: Duration, program: OsString, arguments: &[&str]) -> Part {
        let arguments = arguments.iter().map(OsString::from);
        Part {
            name: name.to_owned(),
            lane,
            deadline,
            command: std::iter::once(program).chain(arguments).collect(),
            environment: Vec::new(),
            after: Vec::new(),
            even_if_skipped: false,
        }
    }

    #[must_use]
    pub fn after(mut self, names: &[&'static str]) -> Part {
        self.after.extend(names);
        self
    }

    #[must_use]
    pub fn even_if_skipped(mut self) -> Part {
        self.even_if_skipped = true;
        self
    }

    pub fn env(&mut self, name: &'static str, value: &OsStr) {
        self.environment.push((name, value.to_owned()));
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn log(&self) -> PathBuf {
        logs().join(format!("{}.log", self.name.replace(' ', "-")))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A part that is done.
#[derive(Clone)]
pub struct PartResult {
    pub name: String,
    pub outcome: Outcome,
    pub duration: Duration,
    /// Of all processes of the part together.
    pub cpu: Duration,
    pub log: PathBuf,
}

fn logs() -> PathBuf {
    sh::target().join("xtask/logs")
}

/// Runs all parts. The results are in the order of the parts.
pub fn run(parts: &[Part]) -> Result<Vec<PartResult>> {
    std::fs::create_dir_all(logs()).with_context(|| format!("cannot create {}", logs().display()))?;
    println!("logs: {}", logs().display());
    let schedule = Schedule::new(parts);
    std::thread::scope(|scope| {
        let schedule = &schedule;
        for lane in [Lane::Cpu, Lane::Waiting] {
            for _ in 0..lane.width() {
                scope.spawn(move || {
                    schedule.work(lane);
                    // Nothing keeps all cores busy any more.
                    if lane == Lane::Cpu {
                        schedule.work(Lane::Waiting);
                    }
                });
            }
        }
        scope.spawn(move || schedule.report_progress());
    });
    Ok(schedule.into_results())
}

/// The state that the workers of all lanes share.
struct Schedule<'p> {
    parts: &'p [Part],
    begun: Instant,
    states: Mutex<BTreeMap<&'p str, State>>,
    changed: Condvar,
}

enum State {
    Waiting,
    Running(Instant),
    Done(PartResult),
}

/// The next thing for a worker to do.
enum Step<'p> {
    Run(&'p Part),
    Skip(&'p Part, String),
    Wait,
    Stop,
}

/// How often running parts are named.
const PROGRESS: Duration = Duration::from_secs(60);

impl<'p> Schedule<'p> {
    fn new(parts: &'p [Part]) -> Schedule<'p> {
        let states = parts.iter().map(|part| (part.name(), State::Waiting)).collect();
        Schedule { parts, begun: Instant::now(), states: Mutex::new(states), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'p str, State>> {
        self.states.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes parts of a lane until none is left.
    fn work(&self, lane: Lane) {
        let mut states = self.lock();
        loop {
            match self.next_step(lane, &states) {
                Step::Run(part) => {
                    let started = Instant::now();
                    states.insert(part.name(), State::Running(started));
                    drop(states);
                    self.say(&format!("start  {}", part.name));
                    let failed = |problem| (Outcome::Failed(format!("{problem:#}")), Duration::ZERO);
                    let (outcome, cpu) = execute(part).unwrap_or_else(failed);
                    states = self.finish(part, outcome, started.elapsed(), cpu);
                }
                Step::Skip(part, reason) => {
                    drop(states);
                    states = self.finish(part, Outcome::Skipped(reason), Duration::ZERO, Duration::ZERO);
                }
                Step::Wait => states = self.changed.wait(states).unwrap_or_else(|poisoned| poisoned.into_inner()),
                Step::Stop => return,
            }
        }
    }

    fn next_step(&self, lane: Lane, states: &BTreeMap<&'p str, State>) -> Step<'p> {
        let waiting = |part: &&Part| part.lane == lane && matches!(states[part.name()], State::Waiting);
        let mut is_any_left = false;
        for part in self.parts.iter().filter(waiting) {
            is_any_left = true;
            match self.readiness(part, states) {
                Readiness::Ready => return Step::Run(part),
                Readiness::Blocked(reason) => return Step::Skip(part, reason),
                Readiness::NotYet => {}
            }
        }
        if is_any_left { Step::Wait } else { Step::Stop }
    }

    fn readiness(&self, part: &Part, states: &BTreeMap<&'p str, State>) -> Readiness {
        for name in &part.after {
            let even_if_skipped = self.parts.iter().any(|other| other.name() == *name && other.even_if_skipped);
            match states.get(name) {
                Some(State::Done(done)) if done.outcome == Outcome::Passed => {}
                Some(State::Done(done)) if even_if_skipped && matches!(done.outcome, Outcome::Skipped(_)) => {}
                Some(State::Done(_)) => return Readiness::Blocked(format!("{name} did not pass")),
                Some(State::Waiting | State::Running(_)) => return Readiness::NotYet,
                None => return Readiness::Blocked(format!("there is no part {name}")),
            }
        }
        Readiness::Ready
    }

    fn finish(
        &self,
        part: &'p Part,
        outcome: Outcome,
        duration: Duration,
        cpu: Duration,
    ) -> MutexGuard<'_, BTreeMap<&'p str, State>> {
        let word = match &outcome {
            Outcome::Passed => format!("passed {} ({})", part.name, clock(duration)),
            Outcome::Failed(reason) => format!("FAILED {} ({}): {reason}", part.name, clock(duration)),
            Outcome::Skipped(reason) => format!("skip   {}: {reason}", part.name),
        };
        self.say(&word);
        let result = PartResult { name: part.name.clone(), outcome, duration, cpu, log: part.log() };
        let mut states = self.lock();
        states.insert(part.name(), State::Done(result));
        self.changed.notify_all();
        states
    }

    fn say(&self, text: &str) {
        println!("[{}] {text}", clock(self.begun.elapsed()));
    }

    /// Names the running parts from time to time, until all parts are done.
    fn report_progress(&self) {
        let mut states = self.lock();
        let mut last = Instant::now();
        while states.values().any(|state| !matches!(state, State::Done(_))) {
            let wait = self.changed.wait_timeout(states, Duration::from_secs(1));
            states = wait.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if last.elapsed() >= PROGRESS {
                last = Instant::now();
                let running = states.iter().filter_map(|(name, state)| match state {
                    State::Running(since) => Some(format!("{name} ({})", clock(since.elapsed()))),
                    State::Waiting | State::Done(_) => None,
                });
                self.say(&format!("running: {}", running.collect::<Vec<_>>().join(", ")));
            }
        }
    }

    fn into_results(self) -> Vec<PartResult> {
        let mut states = self.states.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let done = |part: &Part| match states.remove(part.name()) {
            Some(State::Done(result)) => Some(result),
            Some(State::Waiting | State::Running(_)) | None => None,
        };
        self.parts.iter().filter_map(done).collect()
    }
}

enum Readiness {
    Ready,
    NotYet,
    /// It can never start, for this reason.
    Blocked(String),
}

/// Runs a part to its end or its deadline. Also returns the CPU time it took.
fn execute(part: &Part) -> Result<(Outcome, Duration)> {
    let log = File::create(part.log()).with_context(|| format!("cannot create {}", part.log().display()))?;
    let (program, arguments) = part.command.split_first().context("a part has a command")?;
    let mut command = Command::new(program);
    sh::remove_package_variables(&mut command);
    command.args(arguments).envs(part.environment.iter().map(|(name, value)| (name, value))).current_dir(sh::root());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let is_in_time = wait_until(&child, Instant::now() + part.deadline)?;
    let cpu = Stat::read(child.id()).map_or(0.0, |stat| stat.own_secs + stat.ended_secs);
    let cpu = Duration::from_secs_f64(cpu);
    if !is_in_time {
        kill_tree(child.id());
        child.wait()?;
        return Ok((Outcome::Failed(format!("killed: not done within {}", clock(part.deadline))), cpu));
    }
    let status = child.wait()?;
    let outcome = match status.code() {
        Some(0) => Outcome::Passed,
        Some(code) if code == i32::from(EXIT_SKIPPED) => Outcome::Skipped(skip_reason(part)),
        _ => Outcome::Failed(status.to_string()),
    };
    Ok((outcome, cpu))
}

/// Between two looks at a process.
const STEP: Duration = Duration::from_millis(100);

/// Whether a process ends before the deadline. It stays a zombie, because its CPU time is read after its end.
fn wait_until(child: &Child, deadline: Instant) -> Result<bool> {
    let pid = rustix::process::Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while rustix::process::waitid(WaitId::Pid(pid), options)?.is_none() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(STEP);
    }
    Ok(true)
}

/// The last line that a skipped part printed.
fn skip_reason(part: &Part) -> String {
    let log = std::fs::read_to_string(part.log()).unwrap_or_default();
    let line = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    line.trim().trim_start_matches("skipped: ").to_owned()
}

/// Kills a process and everything that it started. Not a process group: Ctrl-C must reach the parts, too.
fn kill_tree(root: u32) {
    let mut tree = vec![root];
    let processes = parents();
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(processes.iter().filter(|(_, found)| *found == parent).map(|(process, _)| *process));
        next += 1;
    }
    let ids = tree.iter().map(u32::to_string);
    // Some may have ended by themselves.
    let _ = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
}

/// All processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parse = |entry: std::fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        Some((process, Stat::read(process).ok()?.parent))
    };
    entries.filter_map(parse).collect()
}

/// Minutes and seconds.
pub fn clock(duration: Duration) -> String {
    format!("{}:{:02}", duration.as_secs() / 60, duration.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, script: &str) -> Part {
        Part::new(name, Lane::Waiting, Duration::from_secs(60), "sh".into(), &["-c", script])
    }

    fn outcomes(parts: &[Part]) -> Vec<Outcome> {
        run(parts).unwrap().into_iter().map(|result| result.outcome).collect()
    }

    #[test]
    fn parts_pass_fail_are_skipped_and_block_each_other() {
        let parts = [
            part("test-passes", "true"),
            part("test-fails", "exit 3"),
            part("test-skipped", "echo 'skipped: needs root'; exit 77"),
            part("test-blocked", "true").after(&["test-fails"]),
            part("test-after", "true").after(&["test-passes"]),
        ];
        assert_eq!(
            outcomes(&parts),
            [
                Outcome::Passed,
                Outcome::Failed("exit status: 3".into()),
                Outcome::Skipped("needs root".into()),
                Outcome::Skipped("test-fails did not pass".into()),
                Outcome::Passed,
            ]
        );
    }

    #[test]
    fn the_worker_of_the_cpu_lane_helps_when_it_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().display();
        // Each part ends when all three run.
        let meet = |name: &str| {
            part(name, &format!("touch {dir}/{name}; while [ $(ls {dir} | wc -l) -lt 3 ]; do sleep 0.1; done"))
        };
        let parts = [meet("test-first"), meet("test-second"), meet("test-third")];
        assert_eq!(outcomes(&parts), [Outcome::Passed, Outcome::Passed, Outcome::Passed]);
    }

    #[test]
    fn the_cpu_time_of_a_part_includes_the_programs_that_it_ran() {
        let results =
            run(&[part("test-busy", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true")]).unwrap();
        assert!(results[0].cpu > Duration::ZERO, "{:?}", results[0].cpu);
    }

    #[test]
    fn a_part_that_was_only_skipped_need_not_block_others() {
        let parts = [part("test-setup", "exit 77").even_if_skipped(), part("test-next", "true").after(&["test-setup"])];
        assert_eq!(outcomes(&parts)[1], Outcome::Passed);
    }

    #[test]
    fn a_part_is_killed_at_its_deadline_with_everything_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("sleep 1000 & echo $! > {}/pid; wait", dir.path().display());
        let mut late = part("test-late", &script);
        late.deadline = Duration::from_secs(2);
        assert_eq!(outcomes(&[late]), [Outcome::Failed("killed: not done within 0:02".into())]);
        let sleep = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", sleep.trim()));
        let begun = Instant::now();
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(begun.elapsed() < Duration::from_secs(30), "the process is still there");
            std::thread::yield_now();
        }
    }
}
