//! The file for an issue: results, recordings, versions.

use super::outcome::Document;
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use rankscope_formats::whole_file::WholeFile;
use std::fs;
use std::path::Path;
use tar::{Builder, Header};

/// Largest file that is included, in bytes. A longer recording is no fixture.
const MOST_BYTES: u64 = 4 << 20;
/// Endings of the files of a part that are included.
const INCLUDED: [&str; 3] = ["rslog", "json", "txt"];

/// Writes the bundle.
pub fn write(path: &Path, document: &Document, directory: &Path) -> Result<()> {
    let file = WholeFile::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut archive = Builder::new(GzEncoder::new(file, Compression::default()));
    let results = serde_json::to_vec_pretty(document)?;
    add(&mut archive, "selftest/results.json", &results)?;
    let mut left_out = Vec::new();
    for part in &document.parts {
        let folder = directory.join(&part.name);
        let mut all = files(&folder, &part.name, 2);
        all.sort();
        for (inside, file) in all {
            let bytes = fs::metadata(&file).map_or(0, |data| data.len());
            if bytes > MOST_BYTES {
                left_out.push(format!("{inside} ({bytes} bytes)"));
                continue;
            }
            let content = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            add(&mut archive, &format!("selftest/{inside}"), &content)?;
        }
    }
    let listed = left_out.join("\n");
    add(&mut archive, "selftest/left-out.txt", listed.as_bytes())?;
    archive.into_inner()?.finish()?.finish()?;
    Ok(())
}

/// Returns the files of a part: their names in the archive, and their paths.
fn files(folder: &Path, inside: &str, depth: u32) -> Vec<(String, std::path::PathBuf)> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = format!("{inside}/{}", entry.file_name().to_string_lossy());
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() && depth > 0 {
            out.extend(files(&path, &name, depth - 1));
        } else if extension.is_some_and(|extension| INCLUDED.contains(&extension)) {
            out.push((name, path));
        }
    }
    out
}

fn add(archive: &mut Builder<GzEncoder<WholeFile>>, name: &str, content: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content)?;
    Ok(())
}
