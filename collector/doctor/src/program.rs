//! File of the program to run, and whether a preload can reach it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Effect of a preload on a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The loader loads the library.
    Preloaded,
    /// No effect: a statically linked program has no loader.
    Static,
    /// The program needs another C library (musl), which cannot load the library.
    OtherLibc(String),
    /// The program is 32-bit, or for another processor.
    OtherMachine,
    /// The loader ignores the library because the program runs with privileges of another user.
    Privileged,
    /// The effect is not known (a script, an unreadable file).
    Unknown,
}

impl Reach {
    /// Returns a warning, or `None` if the preload works.
    pub fn warning(&self, program: &Path) -> Option<String> {
        let program = program.display();
        match self {
            Self::Preloaded | Self::Unknown => None,
            Self::Static => Some(format!(
                "{program} is statically linked: a preloaded library does not reach it; \
                 link it dynamically, or record the dynamically linked programs that it starts"
            )),
            Self::OtherLibc(loader) => Some(format!(
                "{program} uses the loader {loader}, not glibc's: librankscope.so cannot be loaded into it"
            )),
            Self::OtherMachine => Some(format!(
                "{program} is not a 64-bit program for this machine: not recorded"
            )),
            Self::Privileged => Some(format!(
                "{program} runs with additional privileges (setuid, setgid or capabilities): the loader ignores \
                 preloaded libraries"
            )),
        }
    }
}

/// Returns the file that `execvp` would execute for `name`.
pub fn resolve(name: &OsStr) -> Option<PathBuf> {
    resolve_in(name, env::var_os("PATH").as_deref(), Path::to_path_buf)
}

/// Returns the file that `execvp` would execute for `name` with this PATH. `place` returns the path on this machine of a
/// file in a prepared tree.
pub fn resolve_in(name: &OsStr, path: Option<&OsStr>, place: impl Fn(&Path) -> PathBuf) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| place(path).is_file());
    }
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut candidates = env::split_paths(path)
        .map(|dir| dir.join(name))
        .filter(|file| place(file).is_file());
    let first = candidates.next()?;
    if is_executable(&place(&first)) {
        return Some(first);
    }
    candidates
        .find(|file| is_executable(&place(file)))
        .or(Some(first))
}

/// Whether anybody may execute the file.
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

/// Examines the file of the program, for this user.
pub fn reach(path: &Path) -> Reach {
    // SAFETY: geteuid cannot fail.
    reach_for(path, unsafe { libc::geteuid() } == 0)
}

/// Examines the file of the program, for root or for another user.
pub fn reach_for(path: &Path, is_root: bool) -> Reach {
    const SETUID_OR_SETGID: u32 = 0o6000;
    if !is_root && fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & SETUID_OR_SETGID != 0) {
        return Reach::Privileged;
    }
    read_elf(path).unwrap_or(Reach::Unknown)
}

const ELF_64_LITTLE: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const PT_INTERP: u32 = 3;
const PROGRAM_HEADER_BYTES: usize = 56;

fn read_elf(path: &Path) -> io::Result<Reach> {
    let file = File::open(path)?;
    let mut head = [0u8; 64];
    (&file).read_exact(&mut head)?;
    if head[..4] != ELF_64_LITTLE[..4] {
        return Ok(Reach::Unknown);
    }
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let ours = if cfg!(target_arch = "aarch64") {
        EM_AARCH64
    } else {
        EM_X86_64
    };
    if head[..6] != ELF_64_LITTLE || machine != ours {
        return Ok(Reach::OtherMachine);
    }
    let u64_at = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let (offset, count) = (u64_at(&head, 32), u16::from_le_bytes([head[56], head[57]]));
    for index in 0..u64::from(count) {
        let mut entry = [0u8; PROGRAM_HEADER_BYTES];
        file.read_exact_at(
            &mut entry,
            offset.saturating_add(index * PROGRAM_HEADER_BYTES as u64),
        )?;
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) != PT_INTERP {
            continue;
        }
        let mut name = vec![0u8; u64_at(&entry, 32).min(4096) as usize];
        file.read_exact_at(&mut name, u64_at(&entry, 8))?;
        let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
        return Ok(if name.contains("ld-musl") {
            Reach::OtherLibc(name)
        } else {
            Reach::Preloaded
        });
    }
    Ok(Reach::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_reached_by_a_preload() {
        let program = env::current_exe().expect("the test has a file");
        assert_eq!(reach(&program), Reach::Preloaded);
    }

    #[test]
    fn names_are_searched_as_a_shell_does() {
        assert!(resolve(OsStr::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(resolve(OsStr::new("no-such-program-here")), None);
        assert_eq!(resolve(OsStr::new("./no-such-program-here")), None);
    }

    #[test]
    fn a_script_says_nothing_about_its_interpreter() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let script = dir.path().join("script");
        fs::write(&script, "#!/bin/sh\nexit 0\n".repeat(10)).expect("written");
        assert_eq!(reach(&script), Reach::Unknown);
    }
}
