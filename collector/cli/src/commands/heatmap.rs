//! `rankscope heatmap`.

use super::progress::Progress;
use super::rank_list::RankList;
use super::results::HEATMAPS;
use super::{Exit, print, session};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_analysis::model::units;
use rankscope_formats::files;
use rankscope_formats::session::{Session, beside_session};
use rankscope_formats::whole_file;
use rankscope_report::heatmap;
use rankscope_report::heatmap::picture;
use rankscope_report::heatmap::picture::{Drawn, PictureStyle, Placed};
use rankscope_report::heatmap::scale::{Scale, Spread};
use rankscope_report::heatmap::steps::Chosen;
use rankscope_report::heatmap::theme::{DARK, LIGHT, Theme};
use rankscope_report::heatmap::{Kind, png, svg};
use serde::Serialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  rankscope heatmap shared/run1                                all maps, into shared/run1/heatmaps/
  rankscope heatmap shared/run1 --kind wait -o wait.png        waits by rank and step
  rankscope heatmap shared/run1 --kind traffic --value bandwidth -o links.svg
  rankscope heatmap shared/run1 --kind delay --ranks 0-63 --steps 100-200 -o zoom.png
  rankscope heatmap shared/run1 --json | jq '.maps[].scale'    scale, and position of every cell";

const MEANING: &str = "\
Kinds:
  wait           rank × step: exposed wait for other ranks
  communication  rank × step: exposed communication, waits included
  step-time      rank × step: duration of the step
  delay          rank × step: own delay against the median of the peers
  busbw          operation × size: bus bandwidth of transfer-bound launches
  traffic        rank × rank: bytes, or bandwidth; one map of recorded traffic (messages, NCCL's proxies,
                 collectives between ranks whose messages were seen), one modelled by ring or tree

Colours (cividis) are readable with any colour vision. A striped cell has no value; this is not zero. Where a map has
more rows or columns than pixels, neighbours share a pixel. The picture names the rule.

Exit status: 0 written, 2 wrong usage, unreadable input, or no map could be drawn.";

/// Draw waits over time, traffic between ranks, and bandwidth, as PNG or SVG.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{MEANING}"))]
pub struct Heatmap {
    /// Run directory that was merged, or session directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Map to draw (default: all).
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<KindChoice>,

    /// Output: FILE.png or FILE.svg for one map, else a directory (default: heatmaps/ next to the session).
    #[arg(short, long, value_name = "FILE|DIR")]
    output: Option<PathBuf>,

    /// Format of the files in a directory.
    #[arg(long, value_enum, default_value_t = Format::Png)]
    format: Format,

    /// Value of the traffic map (default: bytes; both if all maps are drawn).
    #[arg(long, value_enum)]
    value: Option<Value>,

    /// Draw only these ranks, for example 0-3,8.
    #[arg(long, value_name = "LIST")]
    ranks: Option<RankList>,

    /// Draw only these steps, for example 100-200.
    #[arg(long, value_name = "FROM-TO", value_parser = steps)]
    steps: Option<RangeInclusive<u32>>,

    /// Draw only steps in this interval since the start of the session, for example 10s..12.5s.
    #[arg(long, value_name = "FROM..TO", allow_hyphen_values = true)]
    range: Option<TimeRange>,

    /// Colour scale. auto: logarithmic if traffic or bandwidth differs by more than a factor of 100.
    #[arg(long, value_enum, default_value_t = ScaleChoice::Auto)]
    scale: ScaleChoice,

    /// End the scale at the 99th percentile if a few values are far beyond all others. They get the last colour.
    #[arg(long)]
    clip: bool,

    /// Maximum size of the cells of a map, in pixels.
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1600x1200", value_parser = size)]
    size: (u32, u32),

    /// Colour theme. auto: light for PNG; SVG follows the preference of the program that shows it.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Auto)]
    theme: ThemeChoice,

    /// Print the written maps as JSON, with the scales and the positions of the cells.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindChoice {
    Wait,
    Communication,
    StepTime,
    Delay,
    Busbw,
    Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Png,
    Svg,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Value {
    Bytes,
    Bandwidth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScaleChoice {
    Auto,
    Linear,
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ThemeChoice {
    Auto,
    Light,
    Dark,
}

/// Largest side, in pixels. A map of this size takes some hundred MiB to draw.
const MAX_PIXELS: u32 = 8_192;

fn size(text: &str) -> Result<(u32, u32), String> {
    let wrong =
        || format!("'{text}' is not a size; write it as 1600x1200, each side from 64 to {MAX_PIXELS}");
    let (width, height) = text.split_once('x').ok_or_else(wrong)?;
    let side = |text: &str| {
        let pixels: u32 = text.trim().parse().map_err(|_| wrong())?;
        if (64..=MAX_PIXELS).contains(&pixels) {
            Ok(pixels)
        } else {
            Err(wrong())
        }
    };
    Ok((side(width)?, side(height)?))
}

fn steps(text: &str) -> Result<RangeInclusive<u32>, String> {
    let wrong = || format!("'{text}' is not a range of steps; write it as 100-200, 100- or 7");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let first: u32 = first.trim().parse().map_err(|_| wrong())?;
    let last: u32 = match last.trim() {
        "" => u32::MAX,
        last => last.parse().map_err(|_| wrong())?,
    };
    if first <= last {
        Ok(first..=last)
    } else {
        Err(wrong())
    }
}

/// File to write.
struct Target {
    path: PathBuf,
    is_svg: bool,
}

impl Heatmap {
    pub fn run(self) -> Result<Exit> {
        let kinds = self.kinds()?;
        let targets = self.targets(&kinds)?;
        let (path, session) = session::read(&self.directory)?;
        let default_directory = beside_session(&path).join(HEATMAPS);
        let chosen = self.chosen(&session)?;
        let style = self.style();
        let progress = Progress::new();
        progress.report("reading the session", None);
        let pictures = heatmap::pictures(&path, &session, &kinds, &chosen, self.size.0 as usize)
            .context("invalid session; merge the run again with rankscope merge")?;
        let count = pictures.len();
        let mut written = WrittenFiles {
            maps: Vec::new(),
            not_drawn: Vec::new(),
        };
        for (at, (kind, picture)) in pictures.into_iter().enumerate() {
            progress.report("drawing", Some(at as f64 / count as f64));
            let drawn = picture.and_then(|picture| {
                let drawn = picture::draw(&picture, &style).ok_or("no data for this map")?;
                Ok((picture, drawn))
            });
            match drawn {
                Ok((picture, drawn)) => {
                    let mut files = Vec::new();
                    for target in targets.of(kind, &default_directory) {
                        write(&target, &drawn, self.theme())?;
                        files.push(target.path.display().to_string());
                    }
                    written.maps.push(Map {
                        kind,
                        files,
                        title: picture.title,
                        quantity: picture.quantity,
                        scale: drawn.scale,
                        grids: drawn.placed,
                    });
                }
                Err(reason) => written.not_drawn.push(NotDrawn { kind, reason }),
            }
        }
        drop(progress);
        if written.maps.is_empty() {
            let reasons: Vec<String> = written
                .not_drawn
                .iter()
                .map(|not| format!("{}: {}", not.kind.name(), not.reason))
                .collect();
            bail!("no map was drawn\n  {}", reasons.join("\n  "));
        }
        if self.json {
            print::json(&written)?;
        } else {
            print::text(&written.text())?;
        }
        Ok(Exit::Fine)
    }

    /// Returns the chosen part of the session.
    fn chosen(&self, session: &Session) -> Result<Chosen> {
        let mut ranks = self
            .ranks
            .as_ref()
            .map(|list| list.positions(session))
            .transpose()?;
        if let Some(ranks) = &mut ranks {
            ranks.sort_unstable();
            ranks.dedup();
        }
        Ok(Chosen {
            ranks,
            steps: self.steps.clone(),
            range_ns: self
                .range
                .map(|range| (range.from_ns.unwrap_or(i64::MIN), range.to_ns.unwrap_or(i64::MAX))),
        })
    }

    fn style(&self) -> PictureStyle {
        PictureStyle {
            most: self.size,
            cell: (32, 26),
            margin: 16,
            most_elements: 10_000,
            with_words: true,
            spread: match self.scale {
                ScaleChoice::Auto => None,
                ScaleChoice::Linear => Some(Spread::Linear),
                ScaleChoice::Log => Some(Spread::Log),
            },
            clips: self.clip,
        }
    }

    fn theme(&self) -> Theme {
        match self.theme {
            ThemeChoice::Auto => Theme::Auto,
            ThemeChoice::Light => Theme::Light,
            ThemeChoice::Dark => Theme::Dark,
        }
    }

    /// Returns the requested kinds. Options without an effect on the kind are refused.
    fn kinds(&self) -> Result<Vec<Kind>> {
        let Some(chart) = self.kind else {
            return Ok(Kind::ALL
                .into_iter()
                .filter(|kind| match (kind, self.value) {
                    (Kind::Traffic, Some(Value::Bandwidth)) => false,
                    (Kind::TrafficBandwidth, Some(Value::Bytes)) => false,
                    (Kind::Busbw, _) if self.ranks.is_some() => false,
                    // A sum over the whole run would not describe the chosen steps.
                    _ => kind.of_steps().is_some() || !self.chooses_steps(),
                })
                .collect());
        };
        if self.value.is_some() && chart != KindChoice::Traffic {
            bail!("--value requires --kind traffic: the other maps have only one value");
        }
        let kind = match (chart, self.value) {
            (KindChoice::Wait, _) => Kind::Wait,
            (KindChoice::Communication, _) => Kind::Communication,
            (KindChoice::StepTime, _) => Kind::StepTime,
            (KindChoice::Delay, _) => Kind::Delay,
            (KindChoice::Busbw, _) => Kind::Busbw,
            (KindChoice::Traffic, Some(Value::Bandwidth)) => Kind::TrafficBandwidth,
            (KindChoice::Traffic, _) => Kind::Traffic,
        };
        if kind.of_steps().is_none() && self.chooses_steps() {
            bail!(
                "--steps and --range select steps, but {} is a sum over the whole run",
                kind.name()
            );
        }
        if kind == Kind::Busbw && self.ranks.is_some() {
            bail!("--ranks selects rows of ranks, but busbw has one row per operation");
        }
        Ok(vec![kind])
    }

    fn chooses_steps(&self) -> bool {
        self.steps.is_some() || self.range.is_some()
    }

    fn targets(&self, kinds: &[Kind]) -> Result<Targets> {
        let Some(output) = &self.output else {
            return Ok(Targets::NextToSession(self.format));
        };
        let ending = output.extension().and_then(|ending| ending.to_str());
        let is_svg = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("png") => false,
            Some("svg") => true,
            Some(other) if !output.is_dir() => {
                bail!(
                    "{}: maps are written as .png or .svg, not .{other}",
                    output.display()
                )
            }
            _ => return Ok(Targets::Directory(output.clone(), self.format)),
        };
        if kinds.len() > 1 {
            bail!(
                "{} is one file, but there are {} maps: choose one with --kind, or name a directory",
                output.display(),
                kinds.len()
            );
        }
        Ok(Targets::File(output.clone(), is_svg))
    }
}

enum Targets {
    File(PathBuf, bool),
    Directory(PathBuf, Format),
    NextToSession(Format),
}

impl Targets {
    fn of(&self, kind: Kind, default_directory: &Path) -> Vec<Target> {
        let (directory, format) = match self {
            Self::File(path, is_svg) => {
                return vec![Target {
                    path: path.clone(),
                    is_svg: *is_svg,
                }];
            }
            Self::Directory(directory, format) => (directory.as_path(), *format),
            Self::NextToSession(format) => (default_directory, *format),
        };
        [(Format::Svg, "png", false), (Format::Png, "svg", true)]
            .into_iter()
            .filter(|(other, ..)| *other != format)
            .map(|(_, ending, is_svg)| Target {
                path: directory.join(format!("{}.{ending}", kind.name())),
                is_svg,
            })
            .collect()
    }
}

/// Writes a file atomically: the whole file or nothing.
fn write(target: &Target, drawn: &Drawn, theme: Theme) -> Result<()> {
    let bytes = if target.is_svg {
        svg::file(&drawn.scene, theme).into_bytes()
    } else {
        let palette = if theme == Theme::Dark { &DARK } else { &LIGHT };
        png::write(&drawn.scene, palette)?
    };
    let path = &target.path;
    let cannot = || format!("cannot write {}", path.display());
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        files::create_directory(directory).with_context(cannot)?;
    }
    whole_file::write(path, &bytes).with_context(cannot)
}

/// Summary of the written files.
#[derive(Serialize)]
struct WrittenFiles {
    maps: Vec<Map>,
    not_drawn: Vec<NotDrawn>,
}

#[derive(Serialize)]
struct Map {
    kind: Kind,
    files: Vec<String>,
    title: String,
    quantity: String,
    scale: Scale,
    grids: Vec<Placed>,
}

#[derive(Serialize)]
struct NotDrawn {
    kind: Kind,
    reason: String,
}

impl WrittenFiles {
    fn text(&self) -> String {
        let mut text = String::new();
        for map in &self.maps {
            let cells: usize = map.grids.iter().map(|grid| grid.rows * grid.columns).sum();
            for file in &map.files {
                text.push_str(&format!(
                    "{file}: {}, {}, up to {}\n",
                    map.title,
                    units::counted(cells as u64, "cell"),
                    map.scale.unit.shown(map.scale.largest)
                ));
            }
        }
        for not in &self.not_drawn {
            text.push_str(&format!("– {}: {}\n", not.kind.name(), not.reason));
        }
        text.push_str(
            "zoom in with --kind KIND and --ranks, --steps or --range; report.html has the same maps\n",
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_steps_are_read_and_nonsense_is_not() {
        assert_eq!(size("800x600"), Ok((800, 600)));
        for text in ["", "800", "0x5", "800x99999", "axb", "-1x5"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(steps("7"), Ok(7..=7));
        assert_eq!(steps("7-9"), Ok(7..=9));
        assert_eq!(steps("7-"), Ok(7..=u32::MAX));
        for text in ["", "-7", "9-7", "a-b"] {
            assert!(steps(text).is_err(), "{text}");
        }
    }
}
