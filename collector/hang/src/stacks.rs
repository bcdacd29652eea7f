//! Stacks of the processes that others wait for, by py-spy or gdb. They stop a process for some milliseconds, so they are
//! read only on request.

use rankscope_formats::status::{ProcessState, Status};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of processes whose stacks are read.
const MAX_PROCESSES: usize = 4;
/// Maximum time for one stack.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Maximum number of lines of a stack.
const MAX_LINES: usize = 60;

/// Adds the stacks of the ranks that the first verdict names.
pub fn add(status: &mut Status) {
    let Some(first) = status.verdicts.first() else {
        return;
    };
    let here = rankscope_ranklog::process::host_name();
    for &rank in first.culprits.iter().take(MAX_PROCESSES) {
        let Some(rank) = status.ranks.get_mut(rank as usize) else {
            continue;
        };
        let is_here =
            rank.host == here && matches!(rank.process, ProcessState::Running | ProcessState::InKernel);
        if !is_here {
            continue;
        }
        match stack(rank.pid) {
            Ok(lines) => rank.stack = Some(lines),
            Err(error) => status.notes.push(format!("no stack of {}: {error}", rank.name)),
        }
    }
}

/// Returns the stack of a process: that of Python, else the native one.
fn stack(pid: u32) -> Result<Vec<String>, String> {
    let pid = pid.to_string();
    let python = output(Command::new("py-spy").args(["dump", "--nonblocking", "--pid", &pid]));
    let text = match python {
        Ok(text) => text,
        Err(first) => output(Command::new("gdb").args(["-batch", "-nx", "-p", &pid, "-ex", "bt"]))
            .map_err(|second| format!("py-spy: {first}; gdb: {second}"))?,
    };
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    Ok(lines.take(MAX_LINES).map(str::to_owned).collect())
}

/// Runs a program and returns what it prints, within the time limit.
fn output(command: &mut Command) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut pipe = child.stdout.take().ok_or("no output")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let deadline = Instant::now() + TIME_LIMIT;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took longer than {} s", TIME_LIMIT.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = reader.join().map_err(|_| "its output could not be read")?;
    if status.success() && !text.trim().is_empty() {
        Ok(text)
    } else {
        Err(format!("it ended with {status}"))
    }
}
