//! The command: whether it exists, and whether a preload reaches the program that it starts.

use crate::check::{Check, Severity, Subject};
use crate::facts::Facts;
use crate::facts::command::Step;
use crate::program::Reach;

pub fn check(facts: &Facts) -> Vec<Check> {
    let Some(command) = &facts.command else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let last = command.steps.len().saturating_sub(1);
    for (at, step) in command.steps.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| command.steps.get(at));
        out.extend(missing(step, before));
        // A static launcher passes the environment on to the programs that it starts.
        if step.reach == Reach::Static && (at < last || command.elsewhere.is_some()) {
            continue;
        }
        out.extend(unreachable(step));
    }
    if let Some(reason) = &command.clears_environment {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Warn,
                "environment-cleared",
                "the program does not get LD_PRELOAD",
            )
            .because(reason.clone())
            .advise("start `rankscope run` inside that command, or pass LD_PRELOAD and RANKSCOPE_DIR on"),
        );
    }
    if let Some(name) = &command.elsewhere {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Note,
                "runs-elsewhere",
                format!(
                    "{name} starts the program in another environment, which cannot be examined from here"
                ),
            )
            .advise("run `rankscope doctor` there"),
        );
    }
    if let Some(name) = &command.shell {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Note,
                "shell-script",
                format!("{name} is a shell, and no launcher or Python was found in its script"),
            )
            .advise("examine the program itself, for example `rankscope doctor -- python train.py`"),
        );
    }
    if let Some(line) = &command.script_line {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Note,
                "script-line",
                "this line of the shell's script is assumed to start the job",
            )
            .because(line.clone()),
        );
    }
    if let Some(name) = &command.keeps_variables_here {
        out.push(
            Check::new(
                Subject::Recording,
                Severity::Note,
                "variables-not-forwarded",
                format!("{name} may not pass LD_PRELOAD and RANKSCOPE_DIR to ranks on other hosts"),
            )
            .advise("Open MPI: -x LD_PRELOAD -x RANKSCOPE_DIR; MPICH and Intel MPI pass all variables"),
        );
    }
    if let (Some(step), true) = (
        command.last(),
        out.iter().all(|check| check.severity < Severity::Bad),
    ) && let Some(file) = &step.file
    {
        let way: Vec<&str> = command.steps.iter().map(|step| step.name.as_str()).collect();
        let found = Check::new(
            Subject::Recording,
            Severity::Ok,
            "command",
            format!("{} can be preloaded", file.display()),
        );
        out.push(if way.len() > 1 {
            found.because(format!("followed {}", way.join(" → ")))
        } else {
            found
        });
    }
    out
}

fn missing(step: &Step, before: Option<&Step>) -> Option<Check> {
    if step.file.is_some() {
        return None;
    }
    Some(match before {
        None => Check::new(
            Subject::Recording,
            Severity::Bad,
            "command-not-found",
            format!("command not found: {}", step.name),
        ),
        Some(before) => Check::new(
            Subject::Recording,
            Severity::Bad,
            "program-not-found",
            format!("{} starts {}, which was not found", before.name, step.name),
        ),
    })
}

fn unreachable(step: &Step) -> Option<Check> {
    let file = step.file.as_deref()?;
    let warning = step.reach.warning(file)?;
    let id = match step.reach {
        Reach::Static => "program-static",
        Reach::OtherLibc(_) => "program-other-libc",
        Reach::OtherMachine => "program-other-machine",
        Reach::Privileged => "program-privileged",
        Reach::Preloaded | Reach::Unknown => return None,
    };
    Some(Check::new(Subject::Recording, Severity::Bad, id, warning))
}
