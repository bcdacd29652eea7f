//! Tests that heat maps can be read back: cells against the tables, labels against each other.
//!
//! `HEATMAP_OUT=DIR cargo test -p rankscope --test heatmap` also writes the pictures to DIR for visual inspection.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont};
use rankscope_analysis::{MergeOptions, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::sessions::{Job, damaged};
use rankscope_formats::ids::{CommunicatorId, MemberIndex, RankIndex, StepIndex};
use rankscope_formats::session::{
    Session, StepKind, StepRow, TableReader, TableWriter, TrafficRoute, TrafficRow, TrafficSource, part_path,
    rank_path,
};
use rankscope_ranklog::Operation;
use rankscope_report::heatmap;
use rankscope_report::heatmap::grid::{Axis, Cell, Fitted, Grid};
use rankscope_report::heatmap::picture;
use rankscope_report::heatmap::picture::{Drawn, Picture, PictureStyle};
use rankscope_report::heatmap::scale::{Scale, Spread};
use rankscope_report::heatmap::steps::{Chosen, StepQuantity};
use rankscope_report::heatmap::theme::{DARK, LIGHT, Palette, Theme};
use rankscope_report::heatmap::{Kind, cividis, png, svg};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Appearance that the command uses.
const FILE: PictureStyle = PictureStyle {
    most: (1600, 1200),
    cell: (32, 26),
    margin: 16,
    most_elements: 10_000,
    with_words: true,
    spread: None,
    clips: false,
};

/// A session on disk: the made-up job's summary, its table of steps, and the traffic between ranks.
struct Made {
    _folder: TempDir,
    directory: PathBuf,
    session: Session,
    steps: Vec<Vec<StepRow>>,
    moved: Vec<TrafficRow>,
}

fn made(ranks: u32, steps: u64) -> Made {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("run/session");
    fs::create_dir_all(&directory).expect("made");
    let session = Job {
        ranks,
        steps,
        slow: Some(ranks / 2),
        hosts: 2,
    }
    .session();
    let waits = &session.waits;
    assert_eq!(waits.steps_per_column, 1, "the job's matrix is exact");
    let mut rows = Vec::new();
    for rank in 0..ranks as usize {
        let of_rank: Vec<StepRow> = (0..steps as usize)
            .filter_map(|step| {
                let start_ns = step as i64 * 121_000_000;
                Some(StepRow {
                    world: 0,
                    step: StepIndex(step as u32),
                    kind: StepKind::Train,
                    start_ns,
                    end_ns: start_ns + waits.duration_ns[rank][step]? + (rank as i64 % 7) * 1_000_000,
                    host_ns: 0,
                    exposed_communication_ns: waits.exposed_communication_ns[rank][step]?,
                    other_blocked_ns: 0,
                    communication_ns: 0,
                    compute_only_ns: None,
                    overlapped_ns: None,
                    exposed_memory_ns: None,
                    idle_ns: None,
                    exposed_wait_ns: waits.exposed_wait_ns[rank][step]?,
                    hidden_wait_ns: 0,
                    own_delay_ns: (step != 5).then(|| waits.own_delay_ns[rank][step]).flatten(),
                    late: false,
                })
            })
            .collect();
        let mut table =
            TableWriter::create(&rank_path::<StepRow>(&directory, rank as u32), 4096).expect("table");
        table.write(&mut of_rank.clone()).expect("rows");
        table.finish().expect("written");
        rows.push(of_rank);
    }
    let moved = moved(ranks);
    let mut table = TableWriter::create(&part_path::<TrafficRow>(&directory), 1 << 16).expect("table");
    table.write(&mut moved.clone()).expect("rows");
    table.finish().expect("written");
    session.write(&directory).expect("summary");
    Made {
        _folder: folder,
        directory,
        session,
        steps: rows,
        moved,
    }
}

/// Makes traffic: a ring that is measured on half of its paths and modelled on the others, messages across it, and rows
/// that count elsewhere.
fn moved(ranks: u32) -> Vec<TrafficRow> {
    let row = |from: u32, to: u32, source, bytes: u64| TrafficRow {
        communicator: Some(CommunicatorId(0)),
        operation: if source == TrafficSource::Called {
            Operation::Send
        } else {
            Operation::AllReduce
        },
        source,
        route: TrafficRoute::Ring,
        from_member: Some(MemberIndex(from)),
        to_member: Some(MemberIndex(to)),
        from_rank: Some(RankIndex(from)),
        to_rank: Some(RankIndex(to)),
        operations: 10,
        bytes,
        timed_bytes: bytes / 2,
        transfer_ns: i64::from(from + 1) * 1_000_000,
        superseded: false,
    };
    let mut rows = Vec::new();
    for from in 0..ranks {
        let source = if from < ranks / 2 {
            TrafficSource::Nested
        } else {
            TrafficSource::Modelled
        };
        rows.push(row(
            from,
            (from + 1) % ranks,
            source,
            40_000_000 + u64::from(from) * 10_000,
        ));
        let across = (from + ranks / 2) % ranks;
        rows.push(row(from, across, TrafficSource::Called, 3_000 + u64::from(from)));
        // The same pair occurs twice: the rows are added.
        rows.push(row(from, across, TrafficSource::Called, 1_000));
        rows.push(TrafficRow {
            superseded: true,
            ..row(from, across, TrafficSource::Modelled, 1 << 40)
        });
    }
    rows.push(TrafficRow {
        from_rank: None,
        to_rank: None,
        source: TrafficSource::LeftOut,
        ..row(0, 0, TrafficSource::LeftOut, 5)
    });
    rows
}

fn pictures(made: &Made, kinds: &[Kind], style: &PictureStyle) -> Vec<(Kind, Picture, Drawn)> {
    let chosen = Chosen::default();
    heatmap::pictures(
        &made.directory,
        &made.session,
        kinds,
        &chosen,
        style.most.0 as usize,
    )
    .expect("read")
    .into_iter()
    .map(|(kind, picture)| {
        let picture = picture.unwrap_or_else(|reason| panic!("{kind:?}: {reason}"));
        let drawn = picture::draw(&picture, style).expect("drawn");
        (kind, picture, drawn)
    })
    .collect()
}

fn keep(name: &str, drawn: &Drawn) {
    if let Some(out) = std::env::var_os("HEATMAP_OUT").map(PathBuf::from) {
        fs::write(
            out.join(format!("{name}.svg")),
            svg::file(&drawn.scene, Theme::Auto),
        )
        .expect("written");
        for (theme, palette) in [("light", &LIGHT), ("dark", &DARK)] {
            let bytes = png::write(&drawn.scene, palette).expect("encoded");
            fs::write(out.join(format!("{name}-{theme}.png")), bytes).expect("written");
        }
    }
}

/// Pixels of a PNG.
struct Pixels {
    width: usize,
    rgb: Vec<u8>,
}

impl Pixels {
    fn of(bytes: &[u8]) -> Self {
        let mut reader = ::png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .expect("a PNG");
        let mut rgb = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut rgb).expect("an image");
        assert_eq!(info.color_type, ::png::ColorType::Rgb);
        Self {
            width: info.width as usize,
            rgb,
        }
    }

    fn at(&self, x: u32, y: u32) -> [u8; 3] {
        let at = (y as usize * self.width + x as usize) * 3;
        [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
    }
}

/// Compares every cell of a picture, read from its PNG, with values that the test computed from the table. Cells must
/// be within one step of the scale, and cells without a value must be empty.
fn reads_back(name: &str, drawn: &Drawn, palette: &Palette, expected: &[Vec<Option<f64>>]) {
    let pixels = Pixels::of(&png::write(&drawn.scene, palette).expect("encoded"));
    assert_eq!(drawn.placed.len(), expected.len(), "{name}");
    let mut different = std::collections::BTreeSet::new();
    for (placed, expected) in drawn.placed.iter().zip(expected) {
        assert_eq!(placed.rows * placed.columns, expected.len(), "{name}");
        for (at, expected) in expected.iter().enumerate() {
            let left = placed.x + placed.cell_width * (at % placed.columns) as u32;
            let top = placed.y + placed.cell_height * (at / placed.columns) as u32;
            let colour = pixels.at(left, top);
            let reported = cividis::number(colour);
            // There are millions of cells. Only a wrong one needs words.
            let place = || format!("{name}: cell {at} at {left}, {top} is {colour:?}");
            match expected {
                Some(value) => {
                    let reported = reported.unwrap_or_else(|| panic!("{}: no value", place()));
                    let should = number(&drawn.scale, *value);
                    assert!(
                        reported.abs_diff(should) <= 1,
                        "{}: {reported}, not {should}",
                        place()
                    );
                    different.insert(reported);
                }
                None => {
                    assert_eq!(reported, None, "{}: a value", place());
                    assert!(
                        colour == palette.missing || colour == palette.stripe,
                        "{}: {colour:?}",
                        place()
                    );
                }
            }
        }
    }
    assert!(
        different.len() > 1,
        "{name}: a picture of one colour tells nothing"
    );
}

/// Returns the number of a value's colour, as an independent implementation.
fn number(scale: &Scale, value: f64) -> u8 {
    let share = match scale.spread {
        Spread::Linear => (value - scale.bottom) / (scale.top - scale.bottom),
        Spread::Log if value <= 0.0 => 0.0,
        Spread::Log => {
            let decades = (value.log10() - scale.bottom.log10()) / (scale.top.log10() - scale.bottom.log10());
            (1.0 + 253.0 * decades.clamp(0.0, 1.0)) / 254.0
        }
    };
    (share.clamp(0.0, 1.0) * 254.0).round() as u8
}

/// Computes rank × step at this resolution from the rows of the table, slowly and simply.
fn expected_steps(made: &Made, quantity: StepQuantity, rows: usize, columns: usize) -> Vec<Option<f64>> {
    let ranks = made.steps.len();
    let steps = 1 + made
        .steps
        .iter()
        .flatten()
        .map(|row| row.step)
        .max()
        .expect("steps")
        .index();
    let (high, wide) = (ranks.div_ceil(rows), steps.div_ceil(columns));
    let across = steps.div_ceil(wide);
    // Of each rank, the values in each column.
    let values: Vec<Vec<Vec<i64>>> = made
        .steps
        .iter()
        .map(|of_rank| {
            let mut columns = vec![Vec::new(); across];
            for of in of_rank {
                columns[of.step.index() / wide].extend(quantity.of(of));
            }
            columns
        })
        .collect();
    let mut out = Vec::new();
    for row in 0..ranks.div_ceil(high) {
        for column in 0..across {
            let means = (row * high..((row + 1) * high).min(ranks)).filter_map(|rank| {
                let values = &values[rank][column];
                (!values.is_empty()).then(|| (values.iter().sum::<i64>() / values.len() as i64) as f64)
            });
            out.push(means.max_by(f64::total_cmp));
        }
    }
    out
}

fn expected_traffic(made: &Made, is_recorded: bool, places: usize) -> Vec<Option<f64>> {
    let ranks = made.steps.len();
    let high = ranks.div_ceil(places);
    let across = ranks.div_ceil(high);
    let mut bytes: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for row in made.moved.iter().filter(|row| !row.superseded) {
        let (Some(from), Some(to)) = (row.from_rank, row.to_rank) else {
            continue;
        };
        if is_recorded == (row.source != TrafficSource::Modelled) {
            *bytes.entry((from.index(), to.index())).or_default() += row.bytes;
        }
    }
    let mut out = vec![None; across * across];
    for ((from, to), bytes) in bytes {
        let place: &mut Option<f64> = &mut out[from / high * across + to / high];
        *place = Some(place.map_or(bytes as f64, |known| known.max(bytes as f64)));
    }
    out
}

const OF_STEPS: [(Kind, StepQuantity); 4] = [
    (Kind::Wait, StepQuantity::Wait),
    (Kind::Communication, StepQuantity::Communication),
    (Kind::StepTime, StepQuantity::Duration),
    (Kind::Delay, StepQuantity::Delay),
];

#[test]
fn every_pixel_of_eight_and_of_1024_ranks_shows_its_value() {
    for (ranks, steps, cells) in [(8, 60, 1.0), (1024, 256, 1.0)] {
        let made = made(ranks, steps);
        let kinds = OF_STEPS.map(|(kind, _)| kind);
        for ((kind, _, drawn), (_, quantity)) in pictures(&made, &kinds, &FILE).iter().zip(OF_STEPS) {
            let name = format!("{}-{ranks}", kind.name());
            keep(&name, drawn);
            // Nothing is reduced: each rank has a row, each step a column.
            assert_eq!(
                (
                    drawn.placed[0].table_rows_per_row as f64,
                    drawn.placed[0].reduced.as_ref()
                ),
                (cells, None)
            );
            let expected = vec![expected_steps(&made, quantity, usize::MAX, usize::MAX)];
            reads_back(&name, drawn, &LIGHT, &expected);
            reads_back(&name, drawn, &DARK, &expected);
        }
        let (_, _, drawn) = &pictures(&made, &[Kind::Traffic], &FILE)[0];
        let name = format!("traffic-{ranks}");
        keep(&name, drawn);
        let expected = [true, false].map(|is_recorded| expected_traffic(&made, is_recorded, usize::MAX));
        assert!(expected.iter().all(|grid| grid.iter().any(Option::is_some)));
        reads_back(&name, drawn, &LIGHT, &expected);
    }
}

/// One rank of 1,024 is late in every step. The picture must show this thousandth of the cells.
#[test]
fn a_late_rank_is_the_only_bright_row() {
    let made = made(1024, 40);
    let (_, _, drawn) = &pictures(&made, &[Kind::Delay], &FILE)[0];
    let bright = |row: usize| {
        let values = &drawn.values[0][row * 40..(row + 1) * 40];
        let seen = values.iter().flatten();
        seen.filter(|value| drawn.scale.number(**value) > 200).count()
    };
    assert_eq!(bright(512), 39, "all steps but the one without a delay");
    assert!((0..1024).filter(|row| *row != 512).all(|row| bright(row) == 0));
    let style = PictureStyle { clips: true, ..FILE };
    let (_, _, clipped) = &pictures(&made, &[Kind::Delay], &style)[0];
    let texts = words(&svg::file(&clipped.scene, Theme::Light));
    assert!(
        clipped.scale.above >= 39 && texts.contains("cells are beyond the scale, up to 20"),
        "{texts}"
    );
}

#[test]
fn pixels_that_several_cells_share_follow_the_printed_rule() {
    let made = made(100, 250);
    let style = PictureStyle {
        most: (70, 64),
        ..FILE
    };
    for (kind, quantity) in OF_STEPS {
        let (_, _, drawn) = &pictures(&made, &[kind], &style)[0];
        let placed = &drawn.placed[0];
        assert_eq!(
            (placed.table_rows_per_row, placed.rows, placed.columns),
            (2, 50, 63)
        );
        reads_back(
            kind.name(),
            drawn,
            &LIGHT,
            &[expected_steps(&made, quantity, 64, 70)],
        );
        let text = words(&svg::file(&drawn.scene, Theme::Light));
        assert!(
            text.contains("the largest of 2 neighbouring ranks")
                && text.contains("mean over several steps, the first steps 0–3"),
            "{text}"
        );
    }
    let (_, _, drawn) = &pictures(&made, &[Kind::Traffic], &style)[0];
    let expected = [true, false].map(|is_recorded| expected_traffic(&made, is_recorded, 64));
    reads_back("traffic", drawn, &LIGHT, &expected);
    let text = words(&svg::file(&drawn.scene, Theme::Light));
    assert!(
        text.contains("the largest of 2 × 2 neighbouring values"),
        "{text}"
    );
}

/// Returns all text of a picture in one line.
fn words(svg: &str) -> String {
    let document = Document::parse(svg).expect("well-formed");
    document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn bandwidths_are_written_in_their_cells_and_read_back() {
    let session = Job::new(8, 60).session();
    let picture = heatmap::of_summary(&session, &[], Kind::Busbw).expect("a picture");
    let drawn = picture::draw(&picture, &FILE).expect("drawn");
    keep("busbw-8", &drawn);
    // The job's table: 4 MiB in 6.1 ms, 512 KiB in 0.8 ms, a broadcast of 64 bytes in 45 µs, all with f = 2.25.
    let bandwidth = |bytes: f64, ns: f64| Some(bytes * 2.25 / ns * 1e9);
    let row = |at: usize| drawn.values[0][at * 17..(at + 1) * 17].to_vec();
    assert_eq!((drawn.placed[0].rows, drawn.placed[0].columns), (2, 17));
    let mut expected = vec![vec![None; 17]; 2];
    expected[0][16] = bandwidth(4_194_304.0, 6.1e6);
    expected[0][13] = bandwidth(524_288.0, 0.8e6);
    expected[1][0] = bandwidth(64.0, 45e3);
    assert_eq!((row(0), row(1)), (expected[0].clone(), expected[1].clone()));
    reads_back("busbw", &drawn, &LIGHT, &[expected.concat()]);
    let text = words(&svg::file(&drawn.scene, Theme::Light));
    for shown in [
        "1.55 GB/s",
        "1.47 GB/s",
        "3.20 MB/s",
        "4 MiB",
        "64 B",
        "logarithmic",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

/// Returns names and values of grids without their sources.
fn without_sources(grids: &[Grid]) -> Vec<(Vec<String>, Vec<String>, Vec<Cell>)> {
    let names = |axis: &Axis| axis.items.iter().map(|item| item.label.plain()).collect();
    grids
        .iter()
        .map(|grid| (names(&grid.rows), names(&grid.columns), grid.cells.clone()))
        .collect()
}

#[test]
fn a_merged_run_has_the_values_that_were_computed_by_hand() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run");
    // Two ranks. In each step buckets are issued at 700 and 800 µs on rank 0, and 200 µs later on rank 1. Rank 0 is
    // blocked from 805 µs on. Its first call waits until 900 µs. Its worker enters the second call at 952.5 µs and
    // waits until 1,000 µs. This makes 95 + 47.5 µs in calls and blocked. Rank 1 waits for nobody.
    Ddp {
        ranks: 2,
        steps: 6,
        buckets: 2,
        slow: Some((1, 200_000)),
        ..Ddp::default()
    }
    .write(&run)
    .expect("written");
    let options = MergeOptions {
        directories: vec![run.clone()],
        output: run.join("session"),
        threads: Some(2),
        most_pending: None,
        origins: Vec::new(),
    };
    let session = merge(&options, &mut |_| {}).expect("merged");
    let kinds = [Kind::Wait, Kind::Delay, Kind::Communication];
    let chosen = Chosen::default();
    let made = heatmap::pictures(&run.join("session"), &session, &kinds, &chosen, 100).expect("read");
    let fitted = |at: usize| -> Fitted {
        let (_, picture) = &made[at];
        picture.as_ref().expect("a picture").grids[0].fit(100, 100)
    };
    let rows = |values: &[Option<f64>]| -> Vec<Vec<Option<f64>>> {
        let columns = values.len() / 2;
        values.chunks(columns).map(<[_]>::to_vec).collect()
    };
    let wait = rows(&fitted(0).values);
    assert_eq!(wait[0].len(), 5, "whole steps");
    // A time is converted from ticks to whole nanoseconds: each end of an interval may be off by one.
    let is_near =
        |value: &Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() <= 2.0);
    assert!(wait[0].iter().all(|value| is_near(value, 142_500.0)), "{wait:?}");
    assert_eq!(wait[1], [Some(0.0); 5]);
    let delay = rows(&fitted(1).values);
    assert_eq!(delay, [vec![Some(-200_000.0); 5], vec![Some(200_000.0); 5]]);
    // The report makes the same picture from the summary.
    for (kind, picture) in &made {
        let summary = heatmap::of_summary(&session, &[], *kind).expect("a picture");
        let of_tables = picture.as_ref().expect("a picture");
        assert_eq!(
            without_sources(&summary.grids),
            without_sources(&of_tables.grids),
            "{kind:?}"
        );
    }
    // A selection of ranks and steps shows only these.
    let chosen = Chosen {
        ranks: Some(vec![1]),
        steps: Some(2..=3),
        range_ns: None,
    };
    let one = heatmap::pictures(&run.join("session"), &session, &[Kind::Delay], &chosen, 100).expect("read");
    let grid = &one[0].1.as_ref().expect("a picture").grids[0];
    let labels: Vec<String> = grid.columns.items.iter().map(|item| item.label.plain()).collect();
    assert_eq!(
        (labels, grid.rows.items[0].label.plain().as_str()),
        (vec!["step 2".to_owned(), "step 3".to_owned()], "rank 1")
    );
    assert_eq!(grid.fit(9, 9).values, [Some(200_000.0); 2]);
    // Traffic between ranks: 12 + 1 all-reduces of 1 MiB, each moving all of it in both directions between two ranks,
    // and two broadcasts.
    let moved: Vec<TrafficRow> =
        TableReader::read_all(&part_path::<TrafficRow>(&run.join("session"))).expect("traffic");
    let traffic = heatmap::of_summary(&session, &moved, Kind::Traffic).expect("a picture");
    let values = traffic.grids[0].fit(9, 9).values;
    let ring = 13.0 * 1_048_576.0;
    assert_eq!(values, [None, Some(ring + 2.0 * 4096.0), Some(ring), None]);
    assert_eq!(
        traffic.grids[0].title,
        "modelled: by the ring or tree of the algorithm"
    );
}

/// Returns left, top, right, bottom and text of every label, by the metrics of the font that PNGs use.
fn labels(svg: &str) -> (Vec<([f64; 4], String)>, [f64; 2]) {
    let font =
        FontRef::try_from_slice(include_bytes!("../../report/src/heatmap/labels.ttf")).expect("a font");
    let document = Document::parse(svg).expect("well-formed");
    let number = |node: Node, key: &str| node.attribute(key).and_then(|text| text.parse::<f64>().ok());
    let style = document
        .descendants()
        .find(|node| node.has_tag_name("style"))
        .and_then(|node| node.text());
    let style = style.expect("a style sheet");
    let size_of = |class: &str| -> f64 {
        let rest = match class {
            "title" => style.split("text.title{font-size:").nth(1),
            "on-dark" | "on-light" => style.split("text.on-light{font-size:").nth(1),
            _ => style.split("text{font:").nth(1),
        };
        let size = rest.and_then(|rest| rest.split("px").next());
        size.and_then(|size| size.parse().ok()).expect("a size")
    };
    let root = document.root_element();
    let size = ["width", "height"].map(|key| number(root, key).expect("a size"));
    let labels = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| {
            let letters = size_of(node.attribute("class").unwrap_or(""));
            assert!(letters >= 9.0, "letters of {letters} px");
            let text = node.text().unwrap_or_default().to_owned();
            let em = letters * f64::from(font.height_unscaled() / font.units_per_em().expect("an em"));
            let scaled = font.as_scaled(PxScale::from(em as f32));
            let wide: f64 = text
                .chars()
                .map(|letter| f64::from(scaled.h_advance(font.glyph_id(letter))))
                .sum();
            let (x, y) = (number(node, "x").expect("x"), number(node, "y").expect("y"));
            let left = match node.attribute("text-anchor") {
                Some("middle") => x - wide / 2.0,
                Some("end") => x - wide,
                _ => x,
            };
            // Height of capitals and the depth of a g.
            ([left, y - letters * 0.76, left + wide, y + letters * 0.22], text)
        })
        .collect();
    (labels, size)
}

#[test]
fn labels_are_large_enough_and_touch_nothing() {
    let styles = [
        FILE,
        PictureStyle {
            most: (100, 100),
            ..FILE
        },
        PictureStyle {
            most: (860, 512),
            cell: (28, 26),
            margin: 0,
            with_words: false,
            ..FILE
        },
    ];
    for (ranks, steps) in [(1, 5), (2, 5), (8, 60), (1024, 256)] {
        let mut made = made(ranks, steps);
        // Names as in a job with several worlds.
        if ranks == 8 {
            for rank in &mut made.session.ranks {
                rank.name = format!("attempt 2 world 11 rank {}", rank.index);
            }
        }
        for style in styles {
            let kinds: Vec<Kind> = if ranks == 1 {
                vec![Kind::Wait, Kind::Busbw]
            } else {
                Kind::ALL.to_vec()
            };
            for (kind, _, drawn) in pictures(&made, &kinds, &style) {
                let name = format!("{} of {ranks} ranks, {:?}", kind.name(), style.most);
                let (labels, [width, height]) = labels(&svg::file(&drawn.scene, Theme::Auto));
                assert!(labels.len() >= 8, "{name}");
                for (at, (one, text)) in labels.iter().enumerate() {
                    assert!(
                        one[0] >= 0.0 && one[1] >= 0.0 && one[2] <= width && one[3] <= height,
                        "{name}: '{text}' leaves the picture: {one:?} of {width} × {height}"
                    );
                    for (other, with) in &labels[at + 1..] {
                        let touch =
                            one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];
                        assert!(!touch, "{name}: '{text}' and '{with}': {one:?} {other:?}");
                    }
                }
                // The picture shows scale and unit.
                let shown = drawn.scale.unit.shown(drawn.scale.top);
                assert!(
                    labels.iter().any(|(_, text)| text.ends_with(&shown)),
                    "{name}: {shown}"
                );
            }
        }
    }
}

#[test]
fn the_same_session_gives_the_same_bytes() {
    let made = made(8, 60);
    let files = || -> Vec<Vec<u8>> {
        pictures(&made, &Kind::ALL, &FILE)
            .iter()
            .flat_map(|(_, _, drawn)| {
                [
                    svg::file(&drawn.scene, Theme::Auto).into_bytes(),
                    png::write(&drawn.scene, &LIGHT).expect("encoded"),
                ]
            })
            .collect()
    };
    assert!(files() == files());
}

fn rankscope(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rankscope"))
        .args(arguments)
        .output()
        .expect("started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn the_command_writes_what_it_says() {
    let made = made(8, 60);
    let run = made.directory.parent().expect("a run").to_path_buf();
    let all = rankscope(&["heatmap", &shown(&run), "--format", "both", "--json"]);
    assert_eq!(all.status.code(), Some(0), "{}", text(&all.stderr));
    let reported: serde_json::Value = serde_json::from_slice(&all.stdout).expect("JSON");
    let maps = reported["maps"].as_array().expect("a list");
    assert_eq!(maps.len(), Kind::ALL.len(), "{reported}");
    for map in maps {
        for file in map["files"].as_array().expect("files") {
            let path = PathBuf::from(file.as_str().expect("a path"));
            assert_eq!(path.parent(), Some(run.join("heatmaps").as_path()));
            let bytes = fs::read(&path).expect("written");
            let is_svg = path.extension().is_some_and(|ending| ending == "svg");
            assert!(
                bytes.starts_with(if is_svg { b"<?xml" } else { b"\x89PNG" }),
                "{file}"
            );
        }
    }
    // Scale and positions suffice to read a picture back.
    let wait = maps.iter().find(|map| map["kind"] == "wait").expect("wait");
    let (grid, scale) = (&wait["grids"][0], &wait["scale"]);
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let pixels = Pixels::of(&fs::read(run.join("heatmaps/wait.png")).expect("written"));
    let (rank, step) = (2, 33);
    let at = |key: &str, place: &str, nth: u32| number(&grid[key]) as u32 + nth * number(&grid[place]) as u32;
    let colour = pixels.at(at("x", "cell_width", step), at("y", "cell_height", rank));
    let share = f64::from(cividis::number(colour).expect("a value")) / 254.0;
    let (bottom, top) = (number(&scale["bottom"]), number(&scale["top"]));
    let value = made.steps[2][33].exposed_wait_ns as f64;
    assert!((bottom + share * (top - bottom) - value).abs() <= (top - bottom) / 254.0);
    assert_eq!(scale["unit"], "ns");
    // One file, for some ranks and steps, on dark background.
    let file = run.join("zoom.png");
    let one = rankscope(&[
        "heatmap",
        &shown(&made.directory),
        "--kind",
        "delay",
        "--ranks",
        "1-2",
        "--steps",
        "10-19",
        "--theme",
        "dark",
        "-o",
        &shown(&file),
    ]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    let message = text(&one.stdout);
    assert!(
        message.contains("zoom.png") && message.contains("20 cells"),
        "{message}"
    );
    assert_eq!(
        Pixels::of(&fs::read(&file).expect("written")).at(0, 0),
        DARK.paper
    );
}

#[test]
fn maps_that_cannot_be_drawn_are_refused_with_the_reason() {
    let made = made(2, 5);
    let run = shown(made.directory.parent().expect("a run"));
    let out = made._folder.path().join("out");
    let file = shown(&out.join("x.png"));
    let jpeg = shown(&out.join("x.jpg"));
    for (arguments, reason) in [
        (
            vec!["--kind", "traffic", "--steps", "1-2"],
            "sum over the whole run",
        ),
        (vec!["--kind", "wait", "--value", "bytes"], "--kind traffic"),
        (vec!["-o", &file], "choose one with --kind"),
        (vec!["--kind", "wait", "-o", &jpeg], ".png or .svg"),
        (vec!["--kind", "wait", "--ranks", "9"], "there is no rank 9"),
        (
            vec!["--kind", "wait", "--steps", "70-80", "-o", &file],
            "none of the chosen ranks",
        ),
        (vec!["--kind", "wait", "--size", "5x5"], "is not a size"),
        (vec!["--kind", "pie"], "possible values"),
        (vec!["--kind", "busbw", "--ranks", "0"], "one row per operation"),
    ] {
        let all: Vec<&str> = [vec!["heatmap", &run], arguments.clone()].concat();
        let done = rankscope(&all);
        let message = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
    assert!(!out.exists(), "nothing is written");
    let nothing = rankscope(&["heatmap", &shown(&out)]);
    assert_eq!(nothing.status.code(), Some(2));
    let script = rankscope(&["completions", "bash"]);
    assert!(text(&script.stdout).contains("step-time"));
}

#[test]
fn a_session_without_steps_says_why_there_are_no_maps_of_them() {
    let session = damaged();
    for kind in [Kind::Wait, Kind::Delay, Kind::StepTime, Kind::Communication] {
        let reason = heatmap::of_summary(&session, &[], kind)
            .expect_err("no picture")
            .plain();
        assert!(reason.contains("the pattern explains 61 %"), "{reason}");
    }
    let reason = heatmap::of_summary(&session, &[], Kind::Traffic)
        .expect_err("no picture")
        .plain();
    assert!(reason.contains("merge the run again"), "{reason}");
}
