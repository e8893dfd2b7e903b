//! A replicated list: the smallest server on the log. It reads numbers from standard input, one per line, and appends each to
//! the list if it leads.
//!
//! ```text
//! replicated_list etcd://127.0.0.1:2379/demo NAME DIR
//! ```
//!
//! The answers are `done N`, `failed N`, `unknown N` and `follower N` on standard output. `lead TERM` announces a leadership.
//! The copy is the file `DIR/NAME`, with one line per entry. A server whose entries are missing from the log copies the file
//! of another server in the same directory.

use std::fs::{self, File};
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use forewarn_cluster::encoding::{decode_position, encode_position};
use forewarn_cluster::machine::{Identity, Outcome, Settings};
use forewarn_cluster::{
    BootClock, Clock as _, Entry, EtcdLog, EtcdOptions, Follower, Following, Log as _, Position, Replica, Writer,
    random_session,
};

type Failure = Box<dyn std::error::Error>;

/// How long a follower follows before it looks for requests.
const TURN: Duration = Duration::from_millis(50);

/// A short time, so that tests with many takeovers need not wait longer after each of them.
const QUIET_AFTER: Duration = Duration::from_secs(1);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, dir] = arguments.as_slice() else {
        return Err("usage: replicated_list etcd://HOST:PORT,…/REGION NAME DIR".into());
    };
    let mut list = List::open(Path::new(dir), name)?;
    let mut log = EtcdLog::new(EtcdOptions::parse(address)?)?;
    while let Err(error) = log.create(&Position::START) {
        eprintln!("{error}");
        std::thread::sleep(TURN);
    }
    let identity =
        Identity { name: name.clone(), address: name.clone(), format: 1, content_format: 1, session: random_session() };
    let settings = Settings { quiet_after: QUIET_AFTER, ..Settings::default() };
    let position = list.position;
    let mut follower = Follower::start(identity, settings, position, Box::new(log), Box::new(BootClock));
    let requests = read_requests();
    loop {
        follow(&mut follower, &mut list, &requests)?;
        let mut writer = follower.lead();
        if lead(&mut writer, &mut list, &requests) == Next::End {
            return Ok(());
        }
        follower = writer.follow();
    }
}

/// Whether standard input has ended.
#[derive(PartialEq, Eq)]
enum Next {
    Follow,
    End,
}

fn read_requests() -> Receiver<String> {
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    requests
}

/// Follows until this server leads.
fn follow(follower: &mut Follower, list: &mut List, requests: &Receiver<String>) -> Result<(), Failure> {
    loop {
        while let Ok(number) = requests.try_recv() {
            println!("follower {number}");
        }
        match follower.follow(list, BootClock.now() + TURN) {
            Following::Lead(lead) => {
                println!("lead {}", lead.term);
                return Ok(());
            }
            Following::Idle | Following::NoRegion => {}
            Following::TransferFailed(error) => eprintln!("{error}"),
            Following::ApplyFailed(error) => return Err(error.into()),
            Following::Diverged(divergence) => return Err(divergence.into()),
        }
    }
}

/// Commits requests until this server no longer leads.
fn lead(writer: &mut Writer, list: &mut List, requests: &Receiver<String>) -> Next {
    loop {
        let Ok(next) = writer.run_due_tasks(list) else { return Next::Follow };
        let number = match requests.recv_timeout(next.saturating_sub(BootClock.now())) {
            Ok(number) => number,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Next::End,
        };
        match writer.commit(list, number.clone().into_bytes()) {
            Outcome::Committed(_) => println!("done {number}"),
            Outcome::Failed(_) | Outcome::Deposed => println!("failed {number}"),
            Outcome::Unknown => println!("unknown {number}"),
        }
    }
}

/// The copy of the list in a file: the position and the payload of each entry.
struct List {
    path: PathBuf,
    file: File,
    position: Position,
}

impl List {
    fn open(dir: &Path, name: &str) -> Result<List, Failure> {
        let path = dir.join(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        // A line without an end was not written completely.
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        let position = match text[..complete].lines().next_back() {
            Some(line) => position_of(line)?,
            None => Position::START,
        };
        let file = File::options().create(true).append(true).open(&path)?;
        file.set_len(complete as u64)?;
        Ok(List { path, file, position })
    }

    /// The most advanced copy of another server.
    fn find_peer(&self, next: u64) -> Result<(String, Position), Failure> {
        let dir = self.path.parent().ok_or("the copy has no directory")?;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            let text = fs::read_to_string(&path)?;
            let Some(line) = text.lines().next_back().filter(|_| path != self.path && text.ends_with('\n')) else {
                continue;
            };
            let position = position_of(line)?;
            if position.revision >= next {
                return Ok((text, position));
            }
        }
        Err(format!("no other server has revision {next}").into())
    }
}

fn position_of(line: &str) -> Result<Position, Failure> {
    let text = line.split(' ').next().unwrap_or_default();
    Ok(decode_position(text.as_bytes())?)
}

impl Replica for List {
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        let line = |entry: &Entry| {
            let payload = String::from_utf8_lossy(&entry.record.payload);
            format!("{} {payload}\n", encode_position(&entry.position()))
        };
        let lines: String = entries.iter().map(line).collect();
        self.file.write_all(lines.as_bytes()).map_err(|error| error.to_string())?;
        self.position = entries.last().map_or(self.position, Entry::position);
        Ok(())
    }

    fn sync(&mut self) -> Result<u64, String> {
        self.file.sync_data().map_err(|error| error.to_string())?;
        Ok(self.position.revision)
    }

    fn transfer(&mut self, next: u64) -> Result<Position, String> {
        let (text, position) = self.find_peer(next).map_err(|error| error.to_string())?;
        let mut replace = || {
            self.file.set_len(0)?;
            self.file.write_all(text.as_bytes())
        };
        replace().map_err(|error: std::io::Error| error.to_string())?;
        self.position = position;
        Ok(position)
    }
}
