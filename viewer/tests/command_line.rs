//! Tests of the viewer's program without a window: pictures, and messages about paths that cannot be opened.

mod support;

use rankscope_fixtures::logs::pipeline::Pipelined;
use std::path::Path;
use std::process::{Command, Output};

fn viewer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rankscope-viewer"))
        .args(arguments)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .output()
        .expect("the viewer")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

/// Reads the size and pixels (RGB) of a picture.
fn picture(path: &Path) -> (usize, usize, Vec<[u8; 3]>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("a picture"));
    let mut reader = png::Decoder::new(file).read_info().expect("PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("a frame");
    let step = info.color_type.samples();
    let pixels = bytes
        .chunks_exact(step)
        .map(|pixel| [pixel[0], pixel[1], pixel[2]])
        .collect();
    (info.width as usize, info.height as usize, pixels)
}

fn colours(pixels: &[[u8; 3]]) -> std::collections::HashMap<[u8; 3], usize> {
    let mut count = std::collections::HashMap::new();
    for pixel in pixels {
        *count.entry(*pixel).or_insert(0) += 1;
    }
    count
}

/// Colours of the dark theme.
const OWN: [u8; 3] = [0x2f, 0xa3, 0x7c];
const WAITING: [u8; 3] = [0xd5, 0x5e, 0x00];
const TRANSFER: [u8; 3] = [0x3b, 0x8b, 0xc9];

#[test]
fn a_picture_needs_no_display_and_shows_waits() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = support::made(&directory.path().join("run"), 4, 300);
    let path = directory.path().join("a.png");
    let arguments = [
        text(&run),
        "--screenshot",
        text(&path),
        "--size",
        "1200x700",
        "--range",
        "0.1s..0.11s",
    ];
    let output = viewer(&arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (width, height, pixels) = picture(&path);
    assert_eq!((width, height), (1200, 700));
    let seen = colours(&pixels);
    for colour in [OWN, WAITING, TRANSFER] {
        assert!(
            seen.get(&colour).is_some_and(|&count| count > 300),
            "{colour:?}: {:?}",
            seen.get(&colour)
        );
    }
    // Another picture has the same pixels, and one with twice the resolution exists.
    let again = directory.path().join("b.png");
    viewer(&[
        text(&run),
        "--screenshot",
        text(&again),
        "--size",
        "1200x700",
        "--range",
        "0.1s..0.11s",
    ]);
    assert_eq!(picture(&again).2, pixels);
    let fine = directory.path().join("c.png");
    viewer(&[
        text(&run),
        "--screenshot",
        text(&fine),
        "--size",
        "600x400",
        "--scale",
        "2",
        "--theme",
        "light",
    ]);
    let (width, height, pixels) = picture(&fine);
    assert_eq!((width, height), (1200, 800));
    let bright = pixels
        .iter()
        .filter(|pixel| pixel.iter().all(|&part| part > 200))
        .count();
    assert!(
        bright * 3 > pixels.len(),
        "light: {bright} of {} pixels",
        pixels.len()
    );
}

#[test]
fn a_picture_shows_the_groups_that_an_option_names() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let job = Pipelined {
        steps: 4,
        ..Pipelined::default()
    };
    let run = support::pipelined(&directory.path().join("run"), &job);
    let path = directory.path().join("a.svg");
    let output = viewer(&[text(&run), "--by", "stage", "--screenshot", text(&path)]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let drawn = std::fs::read_to_string(&path).expect("a drawing");
    let document = roxmltree::Document::parse(&drawn).expect("XML");
    let mut texts = document.descendants().filter_map(|node| node.text());
    assert!(texts.any(|text| text == "stage 1 · ranks 1, 5"));
    let output = viewer(&[text(&run), "--by", "tensor", "--screenshot", text(&path)]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(printed.contains("offers: stage, peers, data, rank"), "{printed}");
}

/// In the SVG of the same window, text stays text, and each row is a separate image.
#[test]
fn a_picture_as_svg_keeps_texts_and_rows() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = support::made(&directory.path().join("run"), 4, 300);
    let path = directory.path().join("a.svg");
    let arguments = ["--size", "1200x700", "--range", "0.1s..0.11s", "--screenshot"];
    let output = viewer(&[&[text(&run)], arguments.as_slice(), &[text(&path)]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let drawn = std::fs::read_to_string(&path).expect("a drawing");
    let document = roxmltree::Document::parse(&drawn).expect("XML");
    let named = |name: &'static str| {
        document
            .descendants()
            .filter(move |node| node.has_tag_name(("http://www.w3.org/2000/svg", name)))
    };
    let texts: Vec<&str> = named("text").filter_map(|node| node.text()).collect();
    for expected in ["run", "rank 0", "steps", "Commands", "own time"] {
        assert!(texts.contains(&expected), "{expected}: {texts:?}");
    }
    // Every named row has its picture at the place of the row, with its height.
    let steps = texts.iter().filter(|text| **text == "steps").count();
    let number = |node: roxmltree::Node<'_, '_>, name| -> f32 {
        let value = node.attribute(name).and_then(|value| value.parse().ok());
        value.unwrap_or(f32::NAN)
    };
    let rows = named("image").filter(|image| number(*image, "width") > 400.0);
    assert!(rows.count() > 3 * steps, "{steps} ranks are seen");
    assert!(steps >= 2 && named("clipPath").count() > 3);
    let root = document.root_element();
    assert_eq!(root.attribute("viewBox"), Some("0 0 1200 700"));
}

#[test]
fn imported_traces_are_shown() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = support::imported(&directory.path().join("run"), &["fsdp_rank3.json.gz"]);
    let path = directory.path().join("a.png");
    let output = viewer(&[text(&run), "--screenshot", text(&path), "--size", "1200x800"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = colours(&picture(&path).2);
    // Compute and exposed communication.
    for colour in [OWN, [0xe6, 0x9f, 0x00]] {
        assert!(
            seen.get(&colour).is_some_and(|&count| count > 1000),
            "{colour:?}: {:?}",
            seen.get(&colour)
        );
    }
}

#[test]
fn errors_of_opening_have_advice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let nothing = directory.path().join("nothing");
    let picture = directory.path().join("a.png");
    let output = viewer(&[text(&nothing), "--screenshot", text(&picture)]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("nothing") && !picture.exists(), "{message}");

    let session = directory.path().join("run/session");
    std::fs::create_dir_all(&session).expect("made");
    std::fs::write(session.join("session.json"), "{\"version\": 1, ").expect("written");
    let output = viewer(&[
        text(&directory.path().join("run")),
        "--screenshot",
        text(&picture),
    ]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("session.json") && message.contains("rankscope merge"),
        "{message}"
    );

    for arguments in [["--size", "10x10"], ["--scale", "100"], ["--range", "x"]] {
        let output = viewer(&[&["."], arguments.as_slice()].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    // Without a display there is no window, and the message says what to do.
    let run = support::made(&directory.path().join("made"), 2, 20);
    let output = viewer(&[text(&run)]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--screenshot"), "{message}");
}

/// A damaged table does not prevent the viewer from showing the rest. It reports what could not be read.
#[test]
fn a_damaged_session_is_shown_as_far_as_it_can_be_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = support::made(&directory.path().join("run"), 2, 200);
    let table = run.join("session/operations/rank=1.parquet");
    let bytes = std::fs::read(&table).expect("a table");
    std::fs::write(&table, &bytes[..bytes.len() / 2]).expect("cut");
    std::fs::remove_dir_all(run.join("session/view")).expect("removed");
    let path = directory.path().join("a.png");
    let output = viewer(&[text(&run), "--screenshot", text(&path), "--size", "1200x700"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen = colours(&picture(&path).2);
    assert!(
        seen.get(&OWN).is_some_and(|&count| count > 1000),
        "rank 0 is shown"
    );
}
