//! Command line of the viewer.

use crate::app::{App, Start, kept};
use crate::export::svg;
use crate::model::PanelTab;
use crate::screenshot::{self, Frames, Readiness, png_file};
use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use rankscope_analysis::model::time_range::TimeRange;
use rankscope_formats::files::is_remote;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  rankscope view shared/run1                      show which ranks wait for which; ? lists all keys
  rankscope view shared/run1 --range 1.5s..2s     show this time range, and limit the panels to it
  rankscope view log/                             import torch.profiler traces, and show them
  rankscope view after --compare before           compare two runs, aligned by step
  rankscope view shared/run1 --follow             follow a run that is still being recorded
  rankscope view shared/run2 --compare shared/run1
                                                  show both runs rank by rank, aligned by step, with differences in colour
  rankscope view shared/run1 --screenshot run.png --size 1920x1080 --panel operations
                                                  write a picture; needs no display or graphics card";

/// Show which ranks wait for which: a native viewer of runs, sessions and torch.profiler traces.
#[derive(Debug, Parser)]
#[command(name = "rankscope-viewer", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Runs, sessions or torch.profiler traces to open. Runs are merged and traces imported first, if necessary.
    #[arg(required = true, value_name = "RUN|SESSION|TRACE")]
    paths: Vec<PathBuf>,

    /// Compare with another run, session or trace. Its ranks appear below those of the first, aligned by step, with
    /// differences in colour.
    #[arg(long, value_name = "RUN|SESSION|TRACE")]
    compare: Option<PathBuf>,

    /// Show this time range, and limit the panels to it: 1.5s..2s, 250ms.. or ..10s.
    #[arg(long, value_name = "FROM..TO")]
    range: Option<TimeRange>,

    /// Pick one instance, by its number in the session's tables, and show it on all ranks.
    #[arg(long, value_name = "INSTANCE")]
    select: Option<u64>,

    /// Highlight the spans that match this search expression, and grey out all others.
    #[arg(long, value_name = "EXPRESSION", value_parser = filter)]
    filter: Option<String>,

    /// Open this tab below the timeline.
    #[arg(long, value_name = "TAB")]
    panel: Option<Tab>,

    /// Show only the timeline, without findings and panels.
    #[arg(long, conflicts_with = "panel")]
    only_timeline: bool,

    /// Group the rows of ranks: by host, stage, peers, the role of communicators such as tensor, or rank for no groups.
    #[arg(long, value_name = "GROUPING")]
    by: Option<String>,

    /// Use the dark or the light theme. The default is that of the last start.
    #[arg(long)]
    theme: Option<Theme>,

    /// Follow a run that is still being recorded, with a delay of about one second. Expects the run directory.
    #[arg(long, conflicts_with_all = ["compare", "screenshot"])]
    follow: bool,

    /// Write a picture (.png or .svg) instead of opening a window. This needs no display, graphics card or OpenGL.
    #[arg(long, value_name = "FILE.png|FILE.svg", value_parser = picture_file)]
    screenshot: Option<PathBuf>,

    /// Set the size of the picture or window, in points.
    #[arg(long, value_name = "WxH", default_value = "1600x1000", value_parser = size)]
    size: egui::Vec2,

    /// Set the number of pixels per point of the picture.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = scale)]
    scale: f32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Tab {
    Time,
    Operations,
    Stalls,
    Lateness,
    HeatMaps,
    Counters,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Theme {
    Dark,
    Light,
}

/// Content of the picture file.
enum Drawn {
    Shapes(screenshot::Shapes),
    Picture(screenshot::Picture),
}

fn size(text: &str) -> Result<egui::Vec2, String> {
    let wrong = || format!("'{text}' is not a size; write WIDTHxHEIGHT, such as 1600x1000");
    let (width, height) = text.split_once('x').ok_or_else(wrong)?;
    let side = |side: &str| {
        side.parse::<u16>()
            .ok()
            .filter(|&side| (100..=16_384).contains(&side))
            .map(f32::from)
            .ok_or_else(|| format!("{}, with 100 to 16384 points per side", wrong()))
    };
    Ok(egui::vec2(side(width)?, side(height)?))
}

fn filter(text: &str) -> Result<String, String> {
    crate::search::parse(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn picture_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if extension == "png" || extension == "svg" {
        Ok(path)
    } else {
        Err(format!("'{text}' does not end with .png or .svg"))
    }
}

fn scale(text: &str) -> Result<f32, String> {
    text.parse::<f32>()
        .ok()
        .filter(|factor| (0.25..=8.0).contains(factor))
        .ok_or_else(|| format!("'{text}' is not a number from 0.25 to 8"))
}

impl Cli {
    fn start(&self) -> Start {
        Start {
            range: self.range,
            select_range: self.range.is_some(),
            instance: self.select,
            tab: self.panel.map(|tab| match tab {
                Tab::Time => PanelTab::Time,
                Tab::Operations => PanelTab::Operations,
                Tab::Stalls => PanelTab::Stalls,
                Tab::Lateness => PanelTab::Lateness,
                Tab::HeatMaps => PanelTab::HeatMaps,
                Tab::Counters => PanelTab::Counters,
            }),
            light: self.theme.map(|theme| matches!(theme, Theme::Light)),
            filter: self.filter.clone(),
            follow: self.follow,
            only_timeline: self.only_timeline,
            group_by: self.by.clone(),
            compare: self.compare.clone(),
        }
    }

    /// Writes the picture or opens the window.
    pub fn run(self) -> Result<()> {
        match &self.screenshot {
            Some(path) => self.picture(path),
            None => self.window(),
        }
    }

    fn picture(&self, path: &std::path::Path) -> Result<()> {
        let mut app = None;
        let frames = Frames {
            deadline: Duration::from_secs(600),
            ..Frames::default()
        };
        let frame = |ui: &mut egui::Ui| {
            let app = app.get_or_insert_with(|| {
                App::new(self.paths.clone(), self.start(), Default::default(), ui.ctx())
            });
            app.show(ui);
            if app.is_ready() {
                Readiness::Ready
            } else {
                Readiness::NotReady
            }
        };
        let is_svg = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
        let drawn = if is_svg {
            Drawn::Shapes(screenshot::shapes(self.size, self.scale, frames, frame)?)
        } else {
            Drawn::Picture(screenshot::render(self.size, self.scale, frames, frame)?)
        };
        if let Some(why) = app.as_ref().and_then(App::failure) {
            bail!("{why}");
        }
        // If a session was replaced meanwhile, the picture may mix both versions.
        rankscope_remote::sessions::check()?;
        match drawn {
            Drawn::Shapes(shapes) => svg::write(path, &shapes)?,
            Drawn::Picture(picture) => png_file::write(path, &picture.image, picture.pixels_per_point)?,
        }
        Ok(())
    }

    fn window(self) -> Result<()> {
        if let Some(remote) = self
            .paths
            .iter()
            .find(|path| is_remote(path))
            .filter(|_| self.follow)
        {
            bail!(
                "--follow needs a run directory of this machine, not {}: it reads the memory of running processes",
                remote.display()
            );
        }
        // Report paths that cannot be opened on the terminal, before a window exists.
        if !self.follow {
            crate::open::find(&self.paths).map_err(anyhow::Error::msg)?;
        }
        if let Some(path) = &self.compare {
            crate::open::find(std::slice::from_ref(path)).map_err(anyhow::Error::msg)?;
        }
        let options = eframe::NativeOptions {
            viewport: egui::ViewportBuilder::default()
                .with_title("rankscope")
                .with_app_id("rankscope")
                .with_inner_size(self.size),
            persist_window: true,
            ..Default::default()
        };
        let start = self.start();
        eframe::run_native(
            "rankscope",
            options,
            Box::new(move |creation| {
                let kept = kept(creation.storage);
                Ok(Box::new(App::new(
                    self.paths,
                    start,
                    kept,
                    &creation.egui_ctx,
                )))
            }),
        )
        .map_err(|error| anyhow::anyhow!("{error}"))
        .context(
            "cannot open a window: this needs a display (DISPLAY or WAYLAND_DISPLAY) and OpenGL, which may be in \
             software. To write a picture without a display, use --screenshot FILE.png",
        )
    }
}
