//! The command, followed from wrappers, launchers and scripts to the program that would communicate.

use super::python;
use crate::program::{self, Reach};
use crate::surroundings::Surroundings;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum number of programs that are followed. A script may name itself as its interpreter.
const MAX_STEPS: usize = 12;
/// Maximum length of a script's first line, in bytes, as in the kernel.
const MAX_FIRST_LINE: u64 = 256;
/// Programs that execute the command after their options.
const WRAPPERS: [&str; 17] = [
    "env",
    "nice",
    "nohup",
    "time",
    "timeout",
    "taskset",
    "numactl",
    "stdbuf",
    "setsid",
    "ionice",
    "chrt",
    "sudo",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "srun",
];
/// Programs whose command runs in another environment, which cannot be examined from here.
const ELSEWHERE: [&str; 19] = [
    "uv",
    "poetry",
    "pipenv",
    "pixi",
    "hatch",
    "conda",
    "mamba",
    "micromamba",
    "docker",
    "podman",
    "nerdctl",
    "apptainer",
    "singularity",
    "enroot",
    "kubectl",
    "ssh",
    "pdsh",
    "sbatch",
    "ray",
];
/// Shells. Only a line of their script that starts a known launcher is followed.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "fish"];

/// Starts of names of programs that are looked for in the scripts of shells.
const IN_SCRIPTS: [&str; 9] = [
    "torchrun",
    "python",
    "srun",
    "mpirun",
    "mpiexec",
    "orterun",
    "deepspeed",
    "accelerate",
    "horovodrun",
];
/// Options of launchers whose value is the next word, which may be the name of a program.
const WITH_VALUE: [&str; 14] = [
    "account",
    "bind-to",
    "chdir",
    "error",
    "host",
    "hostfile",
    "job-name",
    "machinefile",
    "map-by",
    "nodelist",
    "output",
    "partition",
    "rank-by",
    "wdir",
];
/// Launchers of MPI. Some pass variables to other hosts only on request.
const MPI_LAUNCHERS: [&str; 3] = ["mpirun", "mpiexec", "orterun"];

/// Program that the command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name, as in the command or in the script.
    pub name: String,
    /// File of the program; `None` if there is none.
    pub file: Option<PathBuf>,
    /// Effect of a preload on it.
    pub reach: Reach,
    /// Whether this is a script. Its interpreter is the next step.
    pub is_script: bool,
}

/// Command and what it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Programs, from the command to the last one that is known.
    pub steps: Vec<Step>,
    /// Python interpreter, as a name or path.
    pub python: Option<String>,
    /// Reason why the program would not get the variables of rankscope.
    pub clears_environment: Option<String>,
    /// Name of a program that starts the rest in another environment.
    pub elsewhere: Option<String>,
    /// Name of a shell in whose script no known launcher was found.
    pub shell: Option<String>,
    /// Line of a shell's script that was taken for the start of the job.
    pub script_line: Option<String>,
    /// Name of a launcher of MPI that may not pass LD_PRELOAD to other hosts.
    pub keeps_variables_here: Option<String>,
}

impl Command {
    /// Follows a command.
    pub fn follow(surroundings: &Surroundings, words: &[String]) -> Self {
        let mut out = Self::default();
        let mut words = words.to_vec();
        while let (Some(name), true) = (words.first().cloned(), out.steps.len() < MAX_STEPS) {
            let step = Step::examine(surroundings, &name);
            let file = step.file.clone();
            let is_script = step.is_script;
            out.steps.push(step);
            let Some(file) = file else { break };
            let base = file_name(Path::new(&name));
            if python::is_interpreter(&base) {
                out.python = Some(name);
                break;
            }
            if ELSEWHERE.contains(&base.as_str()) {
                out.elsewhere = Some(base);
                break;
            }
            if is_script {
                let Some(mut interpreter) = first_line(&surroundings.place(&file)) else {
                    break;
                };
                interpreter.push(file.display().to_string());
                interpreter.extend(words.drain(1..));
                words = interpreter;
                continue;
            }
            if SHELLS.contains(&base.as_str()) {
                let Some(line) = script_of(surroundings, &words).and_then(|text| start_in(&text)) else {
                    out.shell = Some(base);
                    break;
                };
                out.script_line = Some(line.join(" "));
                words = line;
                continue;
            }
            if !WRAPPERS.contains(&base.as_str()) {
                break;
            }
            let at = wrapped(surroundings, &base, &words);
            out.note_cleared(surroundings, &base, &words[1..at.unwrap_or(words.len())]);
            let Some(at) = at else { break };
            words.drain(..at);
        }
        out
    }

    /// Notes whether a wrapper with these options keeps variables from the program.
    fn note_cleared(&mut self, surroundings: &Surroundings, base: &str, options: &[String]) {
        let has = |name: &str| options.iter().any(|word| word == name);
        let reason = match base {
            "sudo" => Some("sudo removes LD_PRELOAD from the environment".to_owned()),
            "env" if has("-i") || has("-") || has("--ignore-environment") => {
                Some("`env -i` starts the program with an empty environment".to_owned())
            }
            "srun" => {
                let by_option = options.iter().find(|word| is_no_export(word)).cloned();
                let by_variable = surroundings
                    .variable("SLURM_EXPORT_ENV")
                    .filter(|value| *value == "NONE" || *value == "NIL")
                    .map(|value| format!("SLURM_EXPORT_ENV={value}"));
                by_option
                    .or(by_variable)
                    .map(|what| format!("with {what}, srun does not pass the environment on"))
            }
            _ => None,
        };
        if MPI_LAUNCHERS.contains(&base) && !options.iter().any(|word| word.contains("LD_PRELOAD")) {
            self.keeps_variables_here = Some(base.to_owned());
        }
        self.clears_environment = self.clears_environment.take().or(reason);
    }

    /// Adds the interpreter that a script such as a shim of pyenv starts.
    pub fn add_interpreter(&mut self, surroundings: &Surroundings, interpreter: &Path) {
        let is_new = self.last().is_some_and(|step| {
            step.is_script && step.file.as_deref().is_some_and(|file| file != interpreter)
        });
        if is_new && self.steps.len() < MAX_STEPS {
            let name = interpreter.display().to_string();
            self.steps.push(Step::examine(surroundings, &name));
        }
    }

    /// Returns the file of the program that would communicate; `None` if it is missing or not known from here.
    pub fn program(&self) -> Option<&Path> {
        let is_known = self.shell.is_none() && self.elsewhere.is_none();
        self.last().filter(|_| is_known)?.file.as_deref()
    }

    /// Returns the last program, which would communicate.
    pub fn last(&self) -> Option<&Step> {
        self.steps.last()
    }
}

/// Whether an option of srun keeps LD_PRELOAD from the program.
fn is_no_export(word: &str) -> bool {
    let Some(list) = word.strip_prefix("--export=") else {
        return false;
    };
    !list
        .split(',')
        .any(|name| name == "ALL" || name.starts_with("LD_PRELOAD"))
}

impl Step {
    fn examine(surroundings: &Surroundings, name: &str) -> Self {
        let path = surroundings.variable("PATH").map(OsStr::new);
        let file = program::resolve_in(OsStr::new(name), path, |path| surroundings.place(path));
        let place = file.as_deref().map(|file| surroundings.place(file));
        let reach = place.as_deref().map_or(Reach::Unknown, |place| {
            program::reach_for(place, surroundings.is_root())
        });
        let is_script = place.as_deref().is_some_and(|place| first_line(place).is_some());
        Self {
            name: name.to_owned(),
            file,
            reach,
            is_script,
        }
    }
}

/// Returns the text that a shell would execute: that of `-c`, or of a file.
fn script_of(surroundings: &Surroundings, words: &[String]) -> Option<String> {
    // The first word is the shell.
    let mut arguments = words.iter().skip(1);
    let first = arguments.find(|word| !word.starts_with('-') || word.ends_with('c'))?;
    if first.starts_with('-') {
        return arguments.next().cloned();
    }
    surroundings.read(first)
}

/// Returns the words of the first line that starts a known launcher. Variables of the shell stay as they are.
fn start_in(script: &str) -> Option<Vec<String>> {
    let script = script.replace("\\\n", " ");
    script.split(['\n', ';']).find_map(|line| {
        let words = line
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']).to_owned());
        let is_before = |word: &String| word == "exec" || (word.contains('=') && !word.starts_with('-'));
        let words: Vec<String> = words.skip_while(is_before).collect();
        let name = file_name(Path::new(words.first()?));
        IN_SCRIPTS
            .iter()
            .any(|known| name.starts_with(known))
            .then_some(words)
    })
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the words of a script's first line (`#!/usr/bin/env python3`); `None` if the file is no script.
fn first_line(place: &Path) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    let file = File::open(place).ok()?;
    file.take(MAX_FIRST_LINE).read_to_end(&mut bytes).ok()?;
    interpreter(&bytes)
}

/// Returns the words of the line `#!…` at the start of a file.
pub fn interpreter(bytes: &[u8]) -> Option<Vec<String>> {
    let line = bytes.strip_prefix(b"#!")?;
    let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
    let line = String::from_utf8_lossy(&line[..end]);
    let (program, rest) = line
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((line.trim(), ""));
    if program.is_empty() {
        return None;
    }
    let mut words = vec![program.to_owned()];
    // The kernel passes the rest as one word. `env -S` splits it.
    match rest.trim() {
        "" => {}
        rest => match rest.strip_prefix("-S") {
            Some(list) => words.extend(list.split_whitespace().map(str::to_owned)),
            None => words.push(rest.to_owned()),
        },
    }
    Some(words)
}

/// Returns the position of the command after the options of a wrapper. Which options have values differs between
/// launchers, so the first word that is a program counts. Numbers and the values of well-known options never do.
fn wrapped(surroundings: &Surroundings, base: &str, words: &[String]) -> Option<usize> {
    let path = surroundings.variable("PATH").map(OsStr::new);
    let is_program = |word: &str| {
        !word.starts_with('-')
            && !word.contains('=')
            && !word.starts_with(|first: char| first.is_ascii_digit())
            && program::resolve_in(OsStr::new(word), path, |path| surroundings.place(path))
                .is_some_and(|file| program::is_executable(&surroundings.place(&file)))
    };
    let is_value = |at: usize| {
        let option = words[at - 1].trim_start_matches('-');
        words[at - 1].starts_with('-') && WITH_VALUE.contains(&option)
    };
    let found = (1..words.len()).find(|&at| is_program(&words[at]) && !is_value(at));
    // In these wrappers the first plain word is the command, or one value before it. So a missing command is noticed.
    let is_simple = matches!(base, "env" | "nice" | "nohup" | "time" | "setsid");
    found.or_else(|| {
        let first = (1..words.len()).find(|&at| !words[at].starts_with('-') && !words[at].contains('='))?;
        is_simple.then_some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_is_split_as_the_kernel_does() {
        let words = |text: &str| interpreter(text.as_bytes()).unwrap_or_default();
        assert_eq!(words("#!/usr/bin/env python3\nx"), ["/usr/bin/env", "python3"]);
        assert_eq!(words("#! /bin/sh -e -u\n"), ["/bin/sh", "-e -u"]);
        assert_eq!(
            words("#!/usr/bin/env -S python3 -u\n"),
            ["/usr/bin/env", "python3", "-u"]
        );
        assert!(words("\x7fELF").is_empty() && words("#!").is_empty() && words("#!\n").is_empty());
    }

    #[test]
    fn the_start_of_a_job_is_found_in_a_script() {
        let of = |text: &str| start_in(text).unwrap_or_default();
        assert_eq!(
            of(
                "#!/bin/bash\n# python old.py\nmodule load cuda\nNCCL_DEBUG=WARN exec torchrun \\\n  --nnodes 2 train.py\n"
            ),
            ["torchrun", "--nnodes", "2", "train.py"]
        );
        assert_eq!(
            of("cd work; /opt/venv/bin/python3 'a.py'"),
            ["/opt/venv/bin/python3", "a.py"]
        );
        assert!(of("echo python\nls\n").is_empty());
    }

    #[test]
    fn wrappers_are_followed_to_the_program() {
        let here = Surroundings::system();
        let follow = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            Command::follow(&here, &words)
        };
        let command = follow("nice -n 5 env A=1 ls -l");
        let names: Vec<&str> = command.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["nice", "env", "ls"]);
        assert_eq!(command.clears_environment, None);
        assert!(follow("env -i ls").clears_environment.is_some());
        assert_eq!(
            follow("nice no-such-program")
                .last()
                .and_then(|step| step.file.clone()),
            None
        );
        assert_eq!(follow("sh -c ls").shell.as_deref(), Some("sh"));
        assert_eq!(follow("sh -c python3").script_line.as_deref(), Some("python3"));
        // Values of options are no programs, even if there are programs of these names.
        let at = |base: &str, line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            wrapped(&here, base, &words)
        };
        assert_eq!(at("mpirun", "mpirun --map-by env -np 2 ls -l"), Some(5));
        assert_eq!(at("mpirun", "mpirun -hostfile /etc/passwd ls"), Some(3));
        assert_eq!(at("mpirun", "mpirun -f /etc/passwd ls"), Some(3));
        assert!(is_no_export("--export=NONE") && is_no_export("--export=A=1"));
        assert!(!is_no_export("--export=ALL,A=1") && !is_no_export("--export=LD_PRELOAD"));
    }
}
